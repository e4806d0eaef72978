package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/openai/openaitest"
	"github.com/seed-0906e6bc/mneme/testdata/branches"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// branched is a server as the driver of branches uses it.
type branched struct {
	client
	decisions map[string][]string // by session
	forks     map[string][]string // of decisions, by session
}

const branchedProject = "/api/v1/projects/default"

func (b *branched) session(id, rest string) string { return branchedProject + "/sessions/" + id + rest }

func (b *branched) Post(id string, messages []json.RawMessage, continues bool, rewindTo int) (int, bool) {
	body := object{"session_id": id, "messages": messages, "continues": continues}
	if rewindTo >= 0 {
		body["rewind_to"] = rewindTo
	}
	r := b.post(branchedProject+"/turns", body)
	if r.status == 422 {
		r.wantCode(422, "invalid_messages")
		return 0, false
	}
	var turn struct{ Turn int }
	r.want(201).into(&turn)
	return turn.Turn, true
}

func (b *branched) Rewind(id string, to int) {
	b.post(b.session(id, "/rewind"), object{"to_turn": to}).want(200)
}

func (b *branched) Fork(id string, at int, as string) {
	b.post(b.session(id, "/fork"), object{"at_turn": at, "as": as}).want(201)
}

func (b *branched) Delete(id string) {
	b.do("DELETE", b.session(id, ""), nil).want(204)
	delete(b.decisions, id)
	delete(b.forks, id)
}

func (b *branched) Marks(id string) (living, stored []int) {
	for i, to := range []*[]int{&living, &stored} {
		var list struct{ Data []struct{ Content string } }
		b.get(b.session(id, fmt.Sprintf("/messages?limit=1000&superseded=%t", i == 1))).want(200).into(&list)
		for _, m := range list.Data {
			*to = append(*to, branches.Marks(m.Content)...)
		}
	}
	return living, stored
}

func (b *branched) Counts(id string) (turns, messages, last int) {
	var s struct {
		Turns, Messages int
		LastTurn        int `json:"last_turn"`
	}
	b.get(b.session(id, "")).want(200).into(&s)
	return s.Turns, s.Messages, s.LastTurn
}

func (b *branched) window(body object) reply {
	r := b.post(branchedProject+"/context", body).want(200)
	var w struct {
		ID string `json:"decision_id"`
	}
	r.into(&w)
	id := body["session_id"].(string)
	b.decisions[id] = append(b.decisions[id], w.ID)
	return r
}

func (b *branched) Window(id string, asOf int) (out []int) {
	body := object{"session_id": id, "pipeline": []any{}, "budget": object{"max_messages": 0, "max_tokens": 0}}
	if asOf >= 0 {
		body["as_of"] = object{"turn": asOf}
	}
	var w struct{ Messages []json.RawMessage }
	b.window(body).into(&w)
	for _, m := range w.Messages {
		out = append(out, branches.Marks(string(m))...)
	}
	slices.Sort(out)
	return out
}

// formats are all formats for windows.
var formats = []string{"openai.chat", "anthropic.messages", "openai.responses", "text"}

// Ask also keeps a fork of each decision, with fewer messages and the next format.
func (b *branched) Ask(id string) {
	for i, format := range formats {
		b.window(object{"session_id": id, "format": format, "budget": object{"max_messages": 7, "max_tokens": 900}})
		made := b.decisions[id]
		var fork struct {
			ID string `json:"decision_id"`
		}
		b.post(branchedProject+"/decisions/"+made[len(made)-1]+"/fork", object{"record": true,
			"format": formats[(i+1)%len(formats)], "budget": object{"max_messages": 3}}).want(200).into(&fork)
		b.forks[id] = append(b.forks[id], fork.ID)
	}
}

// looks makes a window of each session and format without leaving a decision, and returns what the model would be sent,
// by session and format.
func (b *branched) looks() map[string]string {
	var list struct{ Data []struct{ ID string } }
	b.get(branchedProject + "/sessions?limit=1000").want(200).into(&list)
	seen := map[string]string{}
	for _, s := range list.Data {
		summary := fmt.Sprint(b.Summary(s.ID)) // which may be made before the kill or after it
		for _, format := range formats {
			var w struct {
				ID           string `json:"decision_id"`
				System, Text json.RawMessage
				Messages     json.RawMessage
			}
			b.post(branchedProject+"/context", object{"session_id": s.ID, "format": format, "record": false}).want(200).into(&w)
			if w.ID != "" {
				b.t.Errorf("a look is kept as %s", w.ID)
			}
			seen[s.ID+" "+format+" "+summary] = fmt.Sprintf("%s %s %s", w.System, w.Messages, w.Text)
		}
	}
	return seen
}

// replay repeats decisions and returns how many they were.
func (b *branched) replay(decisions map[string][]string) (replayed int) {
	for _, ids := range decisions {
		for _, id := range ids {
			r := b.post(branchedProject+"/decisions/"+id+"/replay", nil)
			if r.status == 404 { // decisions are not synced: a kill may lose the newest
				continue
			}
			var got struct{ Equal bool }
			r.want(200).into(&got)
			if !got.Equal {
				b.t.Errorf("decision %s replays otherwise: %s", id, clip(string(r.body), 2000))
			}
			replayed++
		}
	}
	return replayed
}

func (b *branched) Summarise(id string) {
	b.post(b.session(id, "/summary"), object{"action": "refresh"}).want(200)
}

func (b *branched) Summary(id string) []int {
	var s struct{ Summary string }
	b.get(b.session(id, "")).want(200).into(&s)
	return branches.Marks(s.Summary)
}

func (b *branched) Recall(word string) (out []int) {
	var found struct {
		Data []struct {
			Content    string
			Duplicates int
		}
	}
	b.post(branchedProject+"/memories/recall", object{"query": word, "scope": "transcript", "limit": 20}).want(200).
		into(&found)
	for _, hit := range found.Data { // equal messages of copied sessions are returned as one
		out = append(out, slices.Repeat(branches.Marks(hit.Content), 1+hit.Duplicates)...)
	}
	return out
}

func (b *branched) Copy(id, as string) {
	var file map[string]any
	b.get(b.session(id, "/export")).want(200).into(&file)
	file["session"].(map[string]any)["id"] = as
	b.post(branchedProject+"/sessions/import", file).want(201)
}

// TestCampaignBranches changes a server's sessions at random: it rewinds, continues, forks, copies and summarises them
// while the server is killed from time to time. Afterwards the sessions are as a model says, every decision and every
// fork of one replays with the same answer, windows without a decision are the same before and after a kill, and verify
// finds no faults.
//
//	scripts/campaigns -run Branches ./server/e2e
func TestCampaignBranches(t *testing.T) {
	t.Parallel()
	seed, rounds, steps := campaign.Seed(t), campaign.Size(3, 60), campaign.Size(35, 80)
	data, summaries := t.TempDir(), provider(t)
	summaries.About("zebra").Always(openaitest.Extract(4000))
	server := summarising(t, data, summaries)
	b := &branched{client: server.client(t), decisions: map[string][]string{}, forks: map[string][]string{}}
	b.do("PATCH", branchedProject+"/settings", object{"summary_enabled": true, "summary_threshold": 4,
		"summary_keep_last": 2}).want(200)
	d := branches.New(b, seed)
	replayed, forks, same := 0, 0, 0
	for round := range rounds {
		for range steps {
			if err := d.Step(); err != nil {
				t.Fatalf("round %d: %v\n%s", round, err, strings.Join(d.Log, "\n"))
			}
		}
		looks := b.looks()
		server.kill()
		verifiedAt(t, stores.where(data)...)
		server = summarising(t, data, summaries)
		b.client = server.client(t)
		if err := d.Check(); err != nil {
			t.Fatalf("round %d, after the kill: %v\n%s", round, err, strings.Join(d.Log, "\n"))
		}
		replayed += b.replay(b.decisions)
		forks += b.replay(b.forks)
		again := b.looks()
		for key, window := range looks {
			if now, ok := again[key]; ok && now != window {
				t.Errorf("round %d: %s before the kill:\n%s\nand after:\n%s", round, key, clip(window, 2000), clip(now, 2000))
			} else if ok {
				same++
			}
		}
	}
	if replayed < rounds*steps/2 || forks < rounds || same < rounds {
		t.Errorf("replayed %d decisions and %d forks, looked again at %d windows", replayed, forks, same)
	}
}

// TestCampaignForks kills the server while long forks are being made. Each session is there completely or not at all,
// and what an unfinished fork had written is swept.
func TestCampaignForks(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server := start(t, data)
	c := server.client(t)
	var messages []object
	for n := range 400 {
		messages = append(messages, object{"role": "user", "content": fmt.Sprintf("#%d %s", n, strings.Repeat("word ", 40))})
	}
	for range 10 {
		c.post(branchedProject+"/turns", object{"session_id": "long", "messages": messages}).want(201)
	}
	met := 0
	for round := range campaign.Size(2, 20) {
		var group sync.WaitGroup
		done := make(chan struct{}, 8)
		for w := range 8 {
			group.Go(func() {
				for n := 0; ; n++ {
					as := fmt.Sprintf("f%d-%d-%d", round, w, n)
					if r, err := server.client(t).try("POST", branchedProject+"/sessions/long/fork", object{"as": as}); err != nil ||
						r.status != 201 {
						return
					}
					select {
					case done <- struct{}{}:
					default:
					}
				}
			})
		}
		<-done
		server.kill()
		group.Wait()
		verifiedAt(t, stores.where(data)...)
		server = start(t, data)
		var list struct {
			Data []struct {
				ID       string
				Messages int
			}
		}
		server.client(t).get(branchedProject + "/sessions?limit=1000").want(200).into(&list)
		for _, s := range list.Data {
			if s.Messages != 4000 {
				t.Errorf("session %s has %d messages", s.ID, s.Messages)
			}
			if strings.HasPrefix(s.ID, "f") {
				met++
				server.client(t).do("DELETE", branchedProject+"/sessions/"+s.ID, nil).want(204)
			}
		}
	}
	if met == 0 {
		t.Error("no fork was met")
	}
}
