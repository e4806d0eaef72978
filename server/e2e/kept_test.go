package e2e

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// decisionList is the part of a list of decisions that the tests read.
type decisionList struct {
	Data []struct {
		ID      string `json:"decision_id"`
		Session string `json:"session_id"`
		Cut     bool
		Proxied bool
		Call    *struct{ Status int }
	}
}

func (c *conversation) decisions(query string) (out decisionList) {
	c.t.Helper()
	c.get(c.path("/decisions" + query)).want(200).into(&out)
	return out
}

// TestDecisionsKept: a project's setting says which decisions are kept. Windows are counted and compared with the
// previous one regardless.
func TestDecisionsKept(t *testing.T) {
	for _, setting := range []string{"all", "errors", "none"} {
		t.Run(setting, func(t *testing.T) {
			c := own(t)
			c.do("PATCH", c.path("/settings"), object{"decisions": setting}).want(200)
			type made struct {
				ID    json.RawMessage `json:"decision_id"`
				Cut   bool            `json:"cut"`
				Usage struct{ Prefix *struct{ Share float64 } }
			}
			assemble := func(request object) (w made, id string) {
				t.Helper()
				c.post(c.path("/context"), request).want(200).into(&w)
				_ = json.Unmarshal(w.ID, &id)
				return w, id
			}
			ask := object{"session_id": "s"}
			c.turn("s", user("one"), assistant("1")).want(201)
			first, id := assemble(ask)
			if kept := setting == "all"; kept != (id != "") || !kept && string(first.ID) != "null" {
				t.Errorf("the first window has decision_id %s", first.ID)
			}
			c.turn("s", user("two"), assistant("2")).want(201)
			if second, _ := assemble(ask); second.Cut || second.Usage.Prefix == nil || second.Usage.Prefix.Share != 1 {
				t.Errorf("the second window does not begin with the first: %+v", second)
			}
			cut, id := assemble(object{"session_id": "s", "budget": object{"max_messages": 2}})
			if kept := setting != "none"; !cut.Cut || kept != (id != "") {
				t.Errorf("a window that was cut has decision_id %s, cut %v", cut.ID, cut.Cut)
			}
			if id != "" {
				c.get(c.path("/decisions/" + id)).want(200)
				c.post(c.path("/decisions/"+id+"/replay"), nil).want(200)
			}
			if got, want := len(c.decisions("").Data), map[string]int{"all": 3, "errors": 1}[setting]; got != want {
				t.Errorf("the list has %d decisions, want %d", got, want)
			}
			if w, _ := assemble(object{"session_id": "s", "record": false}); w.ID != nil {
				t.Errorf("a look has decision_id %s", w.ID)
			}
			var stats struct{ Total struct{ Windows int } }
			c.get(c.path("/stats")).want(200).into(&stats)
			if stats.Total.Windows != 3 {
				t.Errorf("%d windows are counted, want 3", stats.Total.Windows)
			}
		})
	}
	c := own(t)
	c.do("PATCH", c.path("/settings"), object{"decisions": "some"}).wantCode(422, "invalid_value")
}

// TestRowsOfUnkeptCalls: model calls have rows in lists even if their decisions are not kept. The rows are deleted with
// their session, and the store is consistent before and after.
func TestRowsOfUnkeptCalls(t *testing.T) {
	t.Parallel()
	provider, data := providers.Start(t), t.TempDir()
	p := startProxy(t, data, provider.URL)
	c := converse(p.client(t), "s")
	c.do("PATCH", c.path("/settings"), object{"decisions": "none"}).want(200)
	call := func(path string, body object, session, mode string) reply {
		t.Helper()
		return c.do("POST", path, body, "X-Mneme-Key", c.key, "Authorization", "Bearer sk", "X-Api-Key", "sk",
			"Anthropic-Version", "2023-06-01", "X-Mneme-Session", session, "X-Mneme-Mode", mode)
	}
	chat := object{"model": "gpt-4.1", "messages": []object{user("Is it open?")}}
	for _, mode := range []string{"observe", "assemble"} {
		r := call("/v1/chat/completions", chat, "s-"+mode, mode).want(200)
		if id := r.header.Get("X-Mneme-Decision"); id != "" {
			t.Errorf("in mode %s the response names the decision %s, which is not kept", mode, id)
		}
		rows := c.decisions("?session_id=s-" + mode).Data
		if len(rows) != 1 || !rows[0].Proxied || rows[0].Call == nil || rows[0].Call.Status != 200 {
			t.Fatalf("in mode %s the rows of the session are %+v", mode, rows)
		}
		c.get(c.path("/decisions/"+rows[0].ID)).wantCode(410, "decision_not_kept")
		c.post(c.path("/decisions/"+rows[0].ID+"/replay"), nil).wantCode(410, "decision_not_kept")
		next := object{"session_id": "s-" + mode, "decision_id": rows[0].ID,
			"messages": []object{user("And now?"), assistant("Yes.")}}
		c.post(c.path("/turns"), next).want(201)
	}
	thinks := object{"model": "claude-opus-5-5", "max_tokens": 2000, "messages": []object{user("Is it open?")},
		"thinking": object{"type": "adaptive"}}
	r := call("/v1/messages", thinks, "s-thinks", "assemble").want(422)
	if !bytes.Contains(r.body, []byte("keeps no decisions")) {
		t.Errorf("the refusal says %s", r.body)
	}
	call("/v1/messages", thinks, "s-thinks", "observe").want(200)
	c.do("PATCH", c.path("/settings"), object{"decisions": "errors"}).want(200)
	call("/v1/messages", thinks, "s-errors", "assemble").want(200)

	c.do("DELETE", c.path("/sessions/s-assemble"), nil).want(200, 204)
	for len(c.decisions("").Data) != 3 { // until the background job has deleted the row
	}
	p.stop(t)
	verifiedAt(t, stores.where(data)...)
}
