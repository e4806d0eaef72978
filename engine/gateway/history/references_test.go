package history_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

func reference(id string) string { return fmt.Sprintf(`{"type":"item_reference","id":%q}`, id) }

func spokenItem(id, text string) string {
	return fmt.Sprintf(`{"type":"message","id":%q,"status":"completed","role":"assistant","content":[{"type":"output_text","text":%q}]}`, id, text)
}

// TestReferences sends the model's items back as references, to a server that restarts before each call: also the items
// of an open turn are found. A reference to an item that nobody stored takes nothing back.
func TestReferences(t *testing.T) {
	raw := memstore.New()
	var k *enginetest.Kit
	exchange := func(id, reply string, messages ...string) (*history.Exchange, history.Stored) {
		t.Helper()
		k = enginetest.Open(t, raw)
		x, err := k.Dialogues.Begin(t.Context(), k.Admin, ident.DefaultProject, history.Ask{Session: "s", Format: chat.OpenAIResponses,
			Messages: enginetest.Raw(messages...)})
		if err != nil {
			t.Fatal(err)
		}
		s, err := k.Dialogues.Commit(t.Context(), k.Admin, ident.DefaultProject, x, history.Reply{Messages: enginetest.Raw(reply), ResponseID: id})
		if err != nil || s.Reason != "" {
			t.Fatalf("%+v %v", s, err)
		}
		return x, s
	}
	var sent []string
	say := func(id, reply string, messages ...string) {
		t.Helper()
		sent = append(sent, messages...)
		x, s := exchange("resp_"+id, reply, sent...)
		if s.Session != "s" || id == "msg_2" && x.Match.Case != align.Extend || len(x.References) != countReferences(sent) {
			t.Fatalf("%s: %+v %+v %+v", id, x.Match, s, x.References)
		}
		sent = append(sent, reference(id))
	}
	withID := func(id, item string) string { return `{"id":"` + id + `",` + item[1:] }
	say("fc_1", withID("fc_1", callItem("a", "look")), user("Where do I live?"))
	say("fc_2", withID("fc_2", callItem("b", "look")), resultItem("a", "nowhere"))
	say("msg_1", spokenItem("msg_1", "In Turin, at the river Po."), resultItem("b", "Turin"))
	say("msg_2", spokenItem("msg_2", "You are welcome."), user("thanks"))
	all := []string{"Where do I live?", "", "nowhere", "", "Turin", "In Turin, at the river Po.", "thanks", "You are welcome."}
	k.Lives("s", all...)
	// An answer is regenerated.
	sent = sent[:len(sent)-1]
	x, _ := exchange("resp_3", spokenItem("msg_3", "Any time."), sent...)
	if x.Match.Case != align.Rewind {
		t.Fatalf("%+v", x.Match)
	}
	all[len(all)-1] = "Any time."
	k.Lives("s", all...)
	_, s := exchange("resp_4", spokenItem("msg_4", "So it is."), append(slices.Clone(sent), reference("msg_nobody"), user("and now?"))...)
	k.Lives("s", all...)
	k.Lives(s.Session, append(all[:len(all)-1:len(all)-1], "", "and now?", "So it is.")...)
	k.Sound()
}

func countReferences(list []string) (n int) {
	for _, raw := range list {
		if len(raw) > 24 && raw[:24] == reference("")[:24] {
			n++
		}
	}
	return n
}
