package toolpairtrim

import mneme "github.com/seed-0906e6bc/mneme/sdk/go"

const (
	markerStart = "[earlier messages left out: "
	markerMore  = "more than "
	markerEnd   = "]"

	// widestMarker takes at least the tokens of any marker: no tokenizer needs more for a shorter number. Counting
	// one constant keeps the cut apart from the number that depends on it.
	widestMarker = markerStart + markerMore + "999999" + markerEnd
	// messageTokens is what a message costs beside its text: OpenAI counts three and one for the role, other
	// renderings no more.
	messageTokens = 8
)

func markerTokens(req *mneme.Request) uint64 {
	return uint64(max(req.Tokens(widestMarker), 0)) + messageTokens
}

// insertMarker says before the oldest message of the window how many were left out, and whether there are more.
func insertMarker(plan *mneme.Plan, before, left int, more bool) {
	text := plan.Text(markerStart)
	if more {
		text = text.Str(markerMore)
	}
	plan.Insert(before, text.Uint(uint64(left)).Str(markerEnd), plan.Text("messages_left_out"))
}
