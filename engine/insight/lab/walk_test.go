package lab_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
)

// A replay says which ids that an agent copied its windows hold, and what the calls cost.
func TestReplayedFactsAndCost(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s", enginetest.User("My reservation is ZFAOKY, my user id mia_li_3668."), enginetest.Assistant("Noted."))
	for i := range 12 {
		k.Post("s", enginetest.User(fmt.Sprint("Tell me more about part ", i, ". ", strings.Repeat("It matters. ", 20))), enginetest.Assistant(strings.Repeat("A part of it. ", 60)))
		k.Advance(10 * time.Second)
	}
	call := func(id, reservation string) string {
		return `{"role":"assistant","content":null,"tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"look","arguments":"{\"id\":\"` + reservation + `\"}"}}]}`
	}
	k.Post("s", enginetest.User("Cancel it, and B77XQ2 too."), call("c1", "ZFAOKY"), enginetest.Result("c1", "cancelled, refund R00817"),
		call("c2", "B77XQ2"), enginetest.Result("c2", "cancelled"), enginetest.Assistant("Done, mia_li_3668: refund R00817."))
	replay := func(settings string) lab.SettingsReplay {
		out, err := k.Trials.ReplaySettings(t.Context(), k.Admin, ident.DefaultProject, lab.SettingsReplayRequest{Settings: json.RawMessage(settings)})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	// Needed are ZFAOKY and mia_li_3668. B77XQ2 and R00817 come with the turn itself.
	same := replay(`{}`)
	if f := same.Totals.Facts; f != (lab.FactsKept{Needed: 2, Before: 2, After: 2}) || same.Sessions[0].Facts != f {
		t.Errorf("nothing else: %+v", f)
	}
	// The last 8 turns: 7 with one call of the model, and the last with 3.
	if c := same.Totals.Cost; c.Calls != 10 || c.Before == 0 || c.Before != c.After {
		t.Errorf("nothing else: %+v", c)
	}
	last := replay(`{"pipeline":[{"policy":"tool-pair-trim"}],"history_max_messages":6}`)
	if f := last.Totals.Facts; f.Needed != 2 || f.Before != 2 || f.After != 0 {
		t.Errorf("the last messages: %+v", f)
	}
	// Where turns are further apart than a prompt is cached, every turn pays for its window anew.
	slow := func(gap time.Duration) uint64 {
		k := enginetest.New(t)
		for i := range 10 {
			k.Post("s", enginetest.User(fmt.Sprint("Part ", i, "? ", strings.Repeat("It matters. ", 60))), enginetest.Assistant(strings.Repeat("A part. ", 60)))
			k.Advance(gap)
		}
		out, err := k.Trials.ReplaySettings(t.Context(), k.Admin, ident.DefaultProject, lab.SettingsReplayRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return out.Totals.Cost.After
	}
	if quick, late := slow(time.Minute), slow(6*time.Minute); late < 2*quick {
		t.Errorf("turns a minute apart cost %d, six minutes apart %d", quick, late)
	}
}
