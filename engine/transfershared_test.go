package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// settleMemories gives a tenant memories of all kinds; 27 of them exist.
func settleMemories(k *enginetest.Kit) {
	k.Helper()
	half := 0.25
	for i := range 20 {
		k.Remember(memory.Spec{Key: fmt.Sprint("fact", i), Content: fmt.Sprintf("the bridge of number %d", i),
			Tags: []string{"bridge", fmt.Sprint("n", i%3)}, Source: "survey", Importance: &half})
		k.Advance(time.Hour)
	}
	for _, home := range []string{"Ada lives in Lisbon", "Ada lives in Porto", "Ada lives in Faro, <with> two cats\u2028"} {
		k.Remember(memory.Spec{Key: "home", Content: home})
		k.Advance(time.Minute)
	}
	for range 25 { // more than the history keeps
		k.Remember(memory.Spec{Key: "often", Content: "changed often"})
	}
	k.Remember(memory.Spec{Key: "long", Content: "wörter und mehr 東京 " + strings.Repeat("-", 900_000)})
	k.Remember(memory.Spec{Key: "long", Content: "wörter und noch mehr " + strings.Repeat("-", 700_000)})
	for i, session := range []string{"long", "long", "gone"} {
		k.Remember(memory.Spec{Key: fmt.Sprint("said", i), Content: fmt.Sprint("they spoke of the bridge ", i),
			Category: "conversation", SessionID: session})
		k.Advance(time.Millisecond)
	}
	then := k.Clock().Add(-5000 * enginetest.ADay)
	for _, namespace := range [][]string{{"users", "1"}, {"users", "2"}} {
		for _, city := range []string{"Oslo", "Bergen <b>"} {
			k.Remember(memory.Spec{Key: "home", Namespace: namespace, OccurredAt: &then,
				Metadata: map[string]json.RawMessage{"lang": json.RawMessage(`"no"`), "n": json.RawMessage("1.0")},
				Value:    json.RawMessage(fmt.Sprintf(`{"city":%q,"zip":[1e3]}`, city))})
		}
	}
	later := k.Clock().Add(40 * enginetest.ADay)
	k.Remember(memory.Spec{Key: "note", Content: "a note of the bridge", Category: "daily", ExpiresAt: &later})
	soon := k.Clock().Add(time.Second)
	k.Remember(memory.Spec{Key: "past", Content: "a note that is past", Category: "daily", ExpiresAt: &soon})
	k.Remember(memory.Spec{Key: "forgotten", Content: "what nobody shall know"})
	k.Forget("forgotten")
	k.Advance(time.Minute)
	k.Drain()
}

// shownMemories returns everything visible of a tenant's memories, including recall with its scores.
func shownMemories(k *enginetest.Kit, add func(any, error)) {
	for _, m := range k.ListMemories(memory.Filter{}, 10) {
		m.ETag = "" // it differs between stores
		add(m, nil)
		add(k.History(m.ID(), 50), nil)
	}
	for _, q := range []recall.Query{{Query: "bridge number 7", Limit: 50}, {Query: "where does Ada live?"}, {Query: "東京"},
		{Query: "mehr wörter"}, {Query: "bridge", Tags: []string{"n1"}, Limit: 50}, {Query: "bridge", SessionID: "long"}, {Query: "*"},
		{Query: "bridge", Category: "daily"}} {
		found, err := k.Recall.Recall(k.Context(), k.Admin, ident.DefaultProject, q)
		if len(found.Data) == 0 && len(k.ListMemories(memory.Filter{}, 50)) == 29 && q.Query != "東京" {
			k.Errorf("%+v finds nothing", q)
		}
		add(found.Data, err)
	}
}

// manyWords is the number of words in each of three entries that makes them too large for one commit.
const manyWords = 2500

// settleBoards gives a tenant boards: one with agents and gaps, an empty one, and one with entries of so many words.
func settleBoards(k *enginetest.Kit, words int) {
	k.Helper()
	days := 1000
	spec := board.Spec{Name: "Infrastructure", RetentionDays: &days, Projects: []string{ident.DefaultProject}}
	if _, _, err := k.Boards.Put(k.Context(), k.Admin, "infra", spec); err != nil {
		k.Fatal(err)
	}
	if _, _, err := k.Boards.Put(k.Context(), k.Admin, "quiet", board.Spec{}); err != nil {
		k.Fatal(err)
	}
	k.Member("infra", "chief", board.AgentSpec{DisplayName: "The Chief", Lead: true})
	k.Member("infra", "devops", board.AgentSpec{DisplayName: "Dev Ops"})
	for i := range 150 {
		k.Write("infra", fmt.Sprintf("entry %d of the <deployment>\n", i), "deployment", fmt.Sprint("task:", i%7))
	}
	k.Write("infra", "@devops look at task 7", "chat")
	k.Write("infra", "/pause", "chat")
	chat := true
	if _, err := k.Boards.Purge(k.Context(), k.Admin, "infra", board.Purge{OlderThanDays: 0, IsChat: &chat}); err != nil {
		k.Fatal(err)
	}
	k.Advance(time.Hour)
	k.Write("infra", "@devops the second look", "chat")
	k.Write("infra", "/pause", "chat")
	for _, key := range []string{"progress", "owner", "plan"} {
		spec := board.ValueSpec{Value: []byte(`{"of": "<` + key + `>"}`)}
		if _, _, err := k.Boards.PutValue(k.Context(), k.Admin, "infra", key, spec); err != nil {
			k.Fatal(err)
		}
	}
	for i := range 3 {
		var text strings.Builder
		for n := range words {
			fmt.Fprintf(&text, "w%dx%d ", n, i)
		}
		k.Write("words", text.String())
	}
}

// shownBoards returns everything visible of a tenant's boards; notifications are not transferred.
func shownBoards(k *enginetest.Kit, add func(any, error)) {
	boards, err := k.Boards.List(k.Context(), k.Admin, records.Page{})
	add(boards.Data, err)
	chat := true
	for _, b := range boards.Data {
		agents, err := k.Boards.ListAgents(k.Context(), k.Admin, b.ID, records.Page{})
		add(agents.Data, err)
		values, err := k.Boards.ListValues(k.Context(), k.Admin, b.ID, records.Page{})
		add(values.Data, err)
		for _, f := range []board.Filter{{}, {IsChat: &chat}, {Tags: []string{"deployment", "task:3"}}, {Text: "second LOOK"},
			{Text: "w77x1"}} {
			add(k.Boards.ListEntries(k.Context(), k.Admin, b.ID, board.Query{Filter: f, Limit: 1000}))
		}
	}
}

// wholeBoards fails the test if a board lacks entries.
func wholeBoards(k *enginetest.Kit) {
	k.Helper()
	boards, err := k.Boards.List(k.Context(), k.Admin, records.Page{})
	if err != nil {
		k.Fatal(err)
	}
	want := map[string]uint64{"infra": 152, "words": 3}
	for _, b := range boards.Data {
		page, err := k.Boards.ListEntries(k.Context(), k.Admin, b.ID, board.Query{Limit: 1000})
		if err != nil || b.Entries != want[b.ID] || uint64(len(page.Items)) != b.Entries || page.Total != b.Entries {
			k.Fatalf("board %s shows %d of %d entries: %v", b.ID, len(page.Items), b.Entries, err)
		}
	}
}

// An imported board continues like the original: ids follow the last one, readers continue after their last entry,
// retention runs, and chats raise notifications in new inboxes.
func TestImportedBoardGoesOn(t *testing.T) {
	k := enginetest.New(t)
	asTenant(k, "one")
	settleBoards(k, manyWords)
	file := export(k)
	page, err := k.Boards.ListEntries(t.Context(), k.Admin, "infra", board.Query{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	newest, before := page.Items[0], page.Items[1]
	asTenant(k, "two")
	imported(k, file)
	feed, err := k.Boards.Follow(t.Context(), k.Admin, "infra", board.Follow{After: before.ID})
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	fresh := k.Write("infra", "@devops go on", "chat")
	if fresh.ID <= newest.ID || fresh.ID[:len(fresh.ID)-12] != newest.ID[:len(newest.ID)-12] {
		t.Errorf("the entry after %s is %s", newest.ID, fresh.ID)
	}
	events, err := feed.Next(t.Context())
	if err != nil || len(events) != 2 || events[0].ID != newest.ID || events[1].ID != fresh.ID {
		t.Errorf("a reader of %s goes on with %+v, %v", before.ID, events, err)
	}
	if box := k.Inbox("infra", "devops"); len(box.Items) != 1 || box.Unread != 1 {
		t.Errorf("the inbox holds %+v", box)
	}
	k.Advance(1001 * enginetest.ADay)
	k.Drain()
	if got := k.Contents("infra", board.Query{}); len(got) != 0 {
		t.Errorf("%d entries outlive their board's retention", len(got))
	}
	if got := k.Contents("words", board.Query{}); len(got) != 3 {
		t.Errorf("a board without retention has %d entries", len(got))
	}
}

// An imported memory continues like the original: it can be overwritten, with its history, expires, and can be
// forgotten without a trace.
func TestImportedMemoryGoesOn(t *testing.T) {
	k := enginetest.New(t)
	asTenant(k, "one")
	settleMemories(k)
	file := export(k)
	asTenant(k, "two")
	imported(k, file)
	if m := k.Remember(memory.Spec{Key: "home", Content: "Ada lives in Braga"}); m.Version != 4 {
		t.Errorf("the next version is %d", m.Version)
	}
	if got := k.History("home", 50); len(got) != 3 || got[2].Content != "Ada lives in Lisbon" {
		t.Errorf("the history is %+v", got)
	}
	if _, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, "past"); err == nil {
		t.Error("an expired memory was imported")
	}
	k.Advance(60 * enginetest.ADay)
	k.Drain()
	if _, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, "note"); err == nil {
		t.Error("a memory outlives its expiry")
	}
	for _, m := range k.ListMemories(memory.Filter{}, 50) {
		k.Forget(m.ID())
	}
	k.Drain()
	for _, it := range k.Everything("two") {
		if it.Key[0] == 'e' || it.Key[0] == 'v' && strings.Contains(string(it.Key), "lisbon") {
			t.Errorf("left: %q", it.Key)
		}
	}
	if k.Holds("two", "Lisbon") || k.Holds("two", "wörter") {
		t.Error("a forgotten memory is still stored")
	}
}

// The quota of memories applies to imports: if a file does not fit, nothing is stored.
func TestImportWithinMemoryQuota(t *testing.T) {
	source := enginetest.New(t)
	asTenant(source, "one")
	settleMemories(source)
	file := export(source)
	for count, fits := range map[int]bool{28: false, 29: true} {
		k := enginetest.Open(t, memstore.New(), enginetest.Quota(memory.Quota{Count: count}))
		k.Now = source.Clock()
		asTenant(k, "two")
		_, err := tryImport(k, file)
		if fits != (err == nil) {
			t.Errorf("29 memories, room for %d: %v", count, err)
		}
		if n := len(k.ListMemories(memory.Filter{}, 50)); !fits && n > 0 || fits && n != count {
			t.Errorf("room for %d: %d are there", count, n)
		}
	}
}

// TestImportOfOneMillisecond imports more memories than one commit can hold, all changed in one millisecond and in
// two projects, with an interruption between them. Each exists and is found once the same file is sent again.
func TestImportOfOneMillisecond(t *testing.T) {
	const n = 700
	file := []string{`{"mneme_export":1,"tenant":"one","created_at":"2026-03-05T12:00:00Z"}`}
	for _, project := range []string{"left", "right"} {
		file = append(file, fmt.Sprintf(`{"type":"project","id":%q,"name":""}`, project))
	}
	for i := range 2 * n {
		file = append(file, fmt.Sprintf(`{"type":"memory","project":%q,"key":"k%d","content":"number%d","category":"core",`+
			`"importance":0.5,"created_at":"2026-03-05T12:00:00Z","updated_at":"2026-03-05T12:00:00Z","version":1}`,
			[]string{"left", "right"}[i/n], i, i))
	}
	h := &hooked{Store: memstore.New()}
	k := enginetest.Open(t, h)
	asTenant(k, "two")
	commits := 0
	h.before = func() error {
		if commits++; commits == 6 {
			return errors.New("broken")
		}
		return nil
	}
	if _, err := tryImport(k, sealed(file)); err == nil {
		t.Fatal("it did not break")
	}
	h.before = nil
	if r := imported(k, sealed(file)); r.Imported["memory"] != 2*n {
		t.Errorf("%+v", r)
	}
	k.Drain()
	if r := enginetest.Verified(t, h.Store); !r.Clean() {
		t.Errorf("%+v", r)
	}
	for i := range 2 * n {
		r, err := k.Recall.Recall(t.Context(), k.Admin, []string{"left", "right"}[i/n],
			recall.Query{Query: fmt.Sprint("number", i)})
		if err != nil || len(r.Data) == 0 || r.Data[0].Key != fmt.Sprint("k", i) {
			t.Fatalf("memory %d: %+v, %v", i, r, err)
		}
	}
}

// hooked is a store that calls a function before each commit.
type hooked struct {
	store.Store
	before func() error
}

func (h *hooked) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if h.before != nil {
		if err := h.before(); err != nil {
			return err
		}
	}
	return h.Store.Commit(ctx, tenant, b)
}

// If the process dies during the import of a board, the written part is swept. An import that takes too long ends
// without a board.
func TestImportOfBoardThatEndsHalfway(t *testing.T) {
	source := enginetest.New(t)
	asTenant(source, "one")
	settleBoards(source, manyWords)
	file := export(source)
	for name, halfway := range map[string]func(k *enginetest.Kit) error{
		"dies": func(*enginetest.Kit) error { return errors.New("broken") },
		"late": func(k *enginetest.Kit) error { k.Advance(2 * time.Hour); k.Drain(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			h := &hooked{Store: memstore.New()}
			k := enginetest.Open(t, h)
			k.Now = source.Clock()
			asTenant(k, "two")
			commits := 0
			h.before = func() error {
				if commits++; commits < 3 || name == "late" && commits > 3 {
					return nil
				}
				return halfway(k)
			}
			if _, err := tryImport(k, file); err == nil {
				t.Fatal("it went through")
			}
			h.before = nil
			if _, err := k.Boards.Get(t.Context(), k.Admin, "infra"); err == nil {
				t.Error("half a board shows")
			}
			if !k.Holds("two", "deployment") && name == "dies" {
				t.Fatal("nothing was written, so nothing is tested")
			}
			k.Advance(2 * time.Hour)
			k.Drain()
			if k.Holds("two", "deployment") {
				t.Error("what was written is still stored")
			}
			imported(k, file)
			wholeBoards(k)
		})
	}
}
