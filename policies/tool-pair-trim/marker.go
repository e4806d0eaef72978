package toolpairtrim

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

const (
	// marker says that messages were left out. It is the same in every window, so that windows begin alike; the report
	// says how many messages were left out.
	marker = "[earlier messages left out]"
	// messageTokens is what a message costs in addition to its text: OpenAI counts three tokens and one for the role,
	// other renderings no more.
	messageTokens = 8
)

func markerTokens(req *mneme.Request) uint64 {
	return uint64(max(req.Tokens(marker), 0)) + messageTokens
}

// insertMarker puts the marker before the oldest message of the window.
func insertMarker(plan *mneme.Plan, before int) {
	plan.Insert(before, plan.Text(marker), plan.Text("messages_left_out"))
}
