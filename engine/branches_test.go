package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
	"github.com/seed-0906e6bc/mneme/testdata/branches"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// branched is an engine in the view of the test's driver.
type branched struct {
	*enginetest.Kit
	decisions map[string][]string // by session
}

func (b *branched) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *branched) Post(id string, messages []json.RawMessage, continues bool, rewindTo int) (int, bool) {
	req := session.TurnRequest{SessionID: id, Messages: messages, Continues: continues}
	if rewindTo >= 0 {
		to := uint32(rewindTo)
		req.RewindTo = &to
	}
	r, err := b.TryPost(req)
	if known, ok := errors.AsType[*fault.Error](err); ok && known.Code == "invalid_messages" {
		return 0, false
	}
	b.must(err)
	b.Drain()
	return int(r.Turn), true
}

func (b *branched) Rewind(id string, to int) {
	turn := uint32(to)
	_, err := b.Sessions.Rewind(b.Context(), b.Admin, ident.Once{}, ident.DefaultProject, id,
		session.RewindRequest{ToTurn: &turn})
	b.must(err)
}

func (b *branched) Fork(id string, at int, as string) {
	turn := uint32(at)
	_, err := b.Sessions.Fork(b.Context(), b.Admin, ident.Once{}, ident.DefaultProject, id,
		session.ForkRequest{AtTurn: &turn, As: as})
	b.must(err)
}

func (b *branched) Delete(id string) {
	b.must(b.Sessions.Delete(b.Context(), b.Admin, ident.DefaultProject, id))
	delete(b.decisions, id)
	b.Drain()
}

// list pages through a session in both directions and checks that both return the same messages.
func (b *branched) list(id string, superseded bool) []int {
	var ways [2][]int
	for way := range ways {
		page := records.Page{Limit: 3}
		for {
			list, err := b.Sessions.ListMessages(b.Context(), b.Admin, ident.DefaultProject, id, page,
				session.MessageOrder{Descending: way == 1, Superseded: superseded})
			b.must(err)
			for _, m := range list.Data {
				ways[way] = append(ways[way], branches.Marks(m.Content)...)
			}
			if list.HasMore != (list.NextCursor != nil) || list.HasMore && len(list.Data) == 0 {
				b.Fatalf("a page of %d messages says that there are more: %t", len(list.Data), list.HasMore)
			}
			if !list.HasMore {
				break
			}
			page.Cursor = *list.NextCursor
		}
	}
	slices.Reverse(ways[1])
	if !slices.Equal(ways[0], ways[1]) {
		b.Fatalf("%s lists %v one way and %v the other", id, ways[0], ways[1])
	}
	return ways[0]
}

func (b *branched) Marks(id string) (living, stored []int) {
	return b.list(id, false), b.list(id, true)
}

func (b *branched) Counts(id string) (turns, messages, last int) {
	s := b.GetSession(id)
	return int(s.Turns), int(s.Messages), int(s.LastTurn)
}

func (b *branched) ask(id, request string) enginetest.Window {
	w := b.Kit.Ask("%s", request)
	b.decisions[id] = append(b.decisions[id], w.DecisionID)
	return w
}

func (b *branched) Window(id string, asOf int) []int {
	at := ""
	if asOf >= 0 {
		at = fmt.Sprintf(`,"as_of":{"turn":%d}`, asOf)
	}
	w := b.ask(id, fmt.Sprintf(`{"session_id":%q,"pipeline":[],"budget":{"max_messages":0,"max_tokens":0}%s}`, id, at))
	var out []int
	for _, m := range w.Messages {
		out = append(out, branches.Marks(string(m))...)
	}
	slices.Sort(out)
	return out
}

func (b *branched) Ask(id string) {
	b.ask(id, fmt.Sprintf(`{"session_id":%q,"explain":true,"budget":{"max_messages":7,"max_tokens":900},"pending":[%s]}`,
		id, enginetest.User("and now?")))
	b.Drain()
	b.ask(id, fmt.Sprintf(`{"session_id":%q,"explain":true}`, id))
}

func (b *branched) Summarise(id string) {
	_, err := b.Summaries.ActOn(b.Context(), b.Admin, ident.Once{}, ident.DefaultProject, id,
		summary.Action{Action: "refresh"})
	b.must(err)
	if len(b.decisions[id])%2 == 0 { // else the next change comes first
		b.Drain()
	}
}

func (b *branched) Summary(id string) []int {
	if s := b.GetSession(id); s.Summary != nil {
		return branches.Marks(*s.Summary)
	}
	return nil
}

func (b *branched) Recall(word string) (out []int) {
	found, err := b.Engine.Recall.Recall(b.Context(), b.Admin, ident.DefaultProject,
		recall.Query{Query: word, Scope: "transcript", Limit: 20})
	b.must(err)
	for _, hit := range found.Data { // equal messages of copied sessions are one hit
		out = append(out, slices.Repeat(branches.Marks(hit.Content), 1+hit.Duplicates)...)
	}
	return out
}

func (b *branched) Copy(id, as string) {
	file, err := b.Sessions.Export(b.Context(), b.Admin, ident.DefaultProject, id)
	b.must(err)
	raw, err := json.Marshal(file)
	b.must(err)
	file = session.File{}
	b.must(json.Unmarshal(raw, &file))
	file.Session.ID = as
	_, err = b.Sessions.Import(b.Context(), b.Admin, ident.Once{}, ident.DefaultProject, file)
	b.must(err)
	again, err := b.Sessions.Export(b.Context(), b.Admin, ident.DefaultProject, as)
	b.must(err)
	again.Session.ID, again.Created = id, file.Created
	if now, err := json.Marshal(again); err != nil || string(now) != string(raw) {
		b.Fatalf("exported, imported and exported again:\n%s\n%s", raw, now)
	}
}

func openBranched(t testing.TB, raw store.Store) *branched {
	b := &branched{Kit: enginetest.Open(t, raw, enginetest.SummariseWith(new(enginetest.Scribe))),
		decisions: map[string][]string{}}
	b.SetIn(ident.DefaultProject, `{"summary_enabled":true,"summary_threshold":4,"summary_keep_last":2}`)
	return b
}

// TestCampaignBranches takes turns back, continues after them, and forks, copies and deletes sessions at random, and
// compares the result with a model. At the end, after the store was reopened, every decision can be replayed, and
// verify finds nothing.
//
//	scripts/campaigns -run Branches ./engine
func TestCampaignBranches(t *testing.T) {
	seed := campaign.Seed(t)
	for n := range uint64(campaign.Size(12, 400)) {
		branchesOver(t, seed+n, n%4 == 3, campaign.Size(60, 300))
	}
}

func branchesOver(t *testing.T, seed uint64, disk bool, steps int) {
	raw, dir := store.Store(memstore.New()), t.TempDir()
	open := func() store.Store {
		if !disk {
			return raw
		}
		db, err := badgerstore.Open(badgerstore.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	closing := func(s store.Store) {
		if db, ok := s.(*badgerstore.Store); ok {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := open()
	b := openBranched(t, first)
	d := branches.New(b, seed)
	for range steps {
		if err := d.Step(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(d.Log, "\n"))
		}
	}
	decisions := b.decisions
	closing(first)
	second := open()
	b = openBranched(t, second)
	for _, ids := range decisions {
		for _, id := range ids {
			b.Replay(id)
		}
	}
	for _, drained := range []bool{false, true} {
		if drained {
			b.Drain()
		}
		if r := b.Verify(); len(r.Findings) > 0 {
			t.Fatalf("seed %d: verify finds %v\n%s", seed, r.Findings, strings.Join(d.Log, "\n"))
		}
	}
	b.decisions = map[string][]string{}
	closing(second)
}
