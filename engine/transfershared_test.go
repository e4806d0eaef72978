package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// settleMemories gives a tenant some of all kinds of memories: 27 that are there.
func (k *kit) settleMemories() {
	k.Helper()
	half := 0.25
	for i := range 20 {
		k.remember(memory.Spec{Key: fmt.Sprint("fact", i), Content: fmt.Sprintf("the bridge of number %d", i),
			Tags: []string{"bridge", fmt.Sprint("n", i%3)}, Source: "survey", Importance: &half})
		k.advance(time.Hour)
	}
	for _, home := range []string{"Ada lives in Lisbon", "Ada lives in Porto", "Ada lives in Faro, <with> two cats\u2028"} {
		k.remember(memory.Spec{Key: "home", Content: home})
		k.advance(time.Minute)
	}
	for range 25 { // more than the history keeps
		k.remember(memory.Spec{Key: "often", Content: "changed often"})
	}
	k.remember(memory.Spec{Key: "long", Content: "wörter und mehr 東京 " + strings.Repeat("-", 900_000)})
	k.remember(memory.Spec{Key: "long", Content: "wörter und noch mehr " + strings.Repeat("-", 700_000)})
	for i, session := range []string{"long", "long", "gone"} {
		k.remember(memory.Spec{Key: fmt.Sprint("said", i), Content: fmt.Sprint("they spoke of the bridge ", i),
			Category: "conversation", SessionID: session})
		k.advance(time.Millisecond)
	}
	later := k.clock().Add(40 * aDay)
	k.remember(memory.Spec{Key: "note", Content: "a note of the bridge", Category: "daily", ExpiresAt: &later})
	soon := k.clock().Add(time.Second)
	k.remember(memory.Spec{Key: "past", Content: "a note that is past", Category: "daily", ExpiresAt: &soon})
	k.remember(memory.Spec{Key: "forgotten", Content: "what nobody shall know"})
	k.forget("forgotten")
	k.advance(time.Minute)
	k.drain()
}

// shownMemories is what a tenant shows of its memories, recall with its scores included.
func (k *kit) shownMemories(add func(any, error)) {
	for _, m := range k.memories(memory.Filter{}, 10) {
		add(m, nil)
		add(k.history(m.Key, 50), nil)
	}
	for _, q := range []recall.Query{{Query: "bridge number 7", Limit: 50}, {Query: "where does Ada live?"}, {Query: "東京"},
		{Query: "mehr wörter"}, {Query: "bridge", Tags: []string{"n1"}, Limit: 50}, {Query: "bridge", SessionID: "long"}, {Query: "*"},
		{Query: "bridge", Category: "daily"}} {
		found, err := k.Recall.Recall(k.Context(), k.admin, ident.DefaultProject, q)
		if len(found.Data) == 0 && len(k.memories(memory.Filter{}, 50)) == 27 && q.Query != "東京" {
			k.Errorf("%+v finds nothing", q)
		}
		add(found.Data, err)
	}
}

// manyWords are so many in each of three entries that they are more than one commit takes.
const manyWords = 2500

// settleBoards gives a tenant boards: one with agents and gaps, one that is empty, and one with entries of so many words.
func (k *kit) settleBoards(words int) {
	k.Helper()
	days := 1000
	spec := board.Spec{Name: "Infrastructure", RetentionDays: &days, Projects: []string{ident.DefaultProject}}
	if _, _, err := k.Boards.Put(k.Context(), k.admin, "infra", spec); err != nil {
		k.Fatal(err)
	}
	if _, _, err := k.Boards.Put(k.Context(), k.admin, "quiet", board.Spec{}); err != nil {
		k.Fatal(err)
	}
	k.member("infra", "chief", board.AgentSpec{DisplayName: "The Chief", Lead: true})
	k.member("infra", "devops", board.AgentSpec{DisplayName: "Dev Ops"})
	for i := range 150 {
		k.write("infra", fmt.Sprintf("entry %d of the <deployment>\n", i), "deployment", fmt.Sprint("task:", i%7))
	}
	k.write("infra", "@devops look at task 7", "chat")
	k.write("infra", "/pause", "chat")
	chat := true
	if _, err := k.Boards.Purge(k.Context(), k.admin, "infra", board.Purge{OlderThanDays: 0, IsChat: &chat}); err != nil {
		k.Fatal(err)
	}
	k.advance(time.Hour)
	k.write("infra", "@devops the second look", "chat")
	k.write("infra", "/pause", "chat")
	for i := range 3 {
		var text strings.Builder
		for n := range words {
			fmt.Fprintf(&text, "w%dx%d ", n, i)
		}
		k.write("words", text.String())
	}
}

// shownBoards is what a tenant shows of its boards; notifications are not carried over.
func (k *kit) shownBoards(add func(any, error)) {
	boards, err := k.Boards.List(k.Context(), k.admin, records.Page{})
	add(boards.Data, err)
	chat := true
	for _, b := range boards.Data {
		agents, err := k.Boards.ListAgents(k.Context(), k.admin, b.ID, records.Page{})
		add(agents.Data, err)
		for _, f := range []board.Filter{{}, {IsChat: &chat}, {Tags: []string{"deployment", "task:3"}}, {Text: "second LOOK"},
			{Text: "w77x1"}} {
			add(k.Boards.ListEntries(k.Context(), k.admin, b.ID, board.Query{Filter: f, Limit: 1000}))
		}
	}
}

// wholeBoards fails where a board lacks entries.
func (k *kit) wholeBoards() {
	k.Helper()
	boards, err := k.Boards.List(k.Context(), k.admin, records.Page{})
	if err != nil {
		k.Fatal(err)
	}
	want := map[string]uint64{"infra": 152, "words": 3}
	for _, b := range boards.Data {
		page, err := k.Boards.ListEntries(k.Context(), k.admin, b.ID, board.Query{Limit: 1000})
		if err != nil || b.Entries != want[b.ID] || uint64(len(page.Items)) != b.Entries || page.Total != b.Entries {
			k.Fatalf("board %s shows %d of %d entries: %v", b.ID, len(page.Items), b.Entries, err)
		}
	}
}

// A board that was imported goes on as the one it was: ids go on behind the last, who has read up to one goes on there,
// retention runs, and chats raise notifications in inboxes that are new.
func TestImportedBoardGoesOn(t *testing.T) {
	k := newKit(t)
	k.tenant("one")
	k.settleBoards(manyWords)
	file := k.export()
	page, err := k.Boards.ListEntries(t.Context(), k.admin, "infra", board.Query{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	newest, before := page.Items[0], page.Items[1]
	k.tenant("two")
	k.imported(file)
	feed, err := k.Boards.Follow(t.Context(), k.admin, "infra", board.Follow{After: before.ID})
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	fresh := k.write("infra", "@devops go on", "chat")
	if fresh.ID <= newest.ID || fresh.ID[:len(fresh.ID)-12] != newest.ID[:len(newest.ID)-12] {
		t.Errorf("the entry after %s is %s", newest.ID, fresh.ID)
	}
	events, err := feed.Next(t.Context())
	if err != nil || len(events) != 2 || events[0].ID != newest.ID || events[1].ID != fresh.ID {
		t.Errorf("a reader of %s goes on with %+v, %v", before.ID, events, err)
	}
	if box := k.inbox("infra", "devops"); len(box.Items) != 1 || box.Unread != 1 {
		t.Errorf("the inbox holds %+v", box)
	}
	k.advance(1001 * aDay)
	k.drain()
	if got := k.contents("infra", board.Query{}); len(got) != 0 {
		t.Errorf("%d entries outlive their board's retention", len(got))
	}
	if got := k.contents("words", board.Query{}); len(got) != 3 {
		t.Errorf("a board without retention has %d entries", len(got))
	}
}

// An imported memory goes on as the one it was: it is overwritten, with all that it was before, expires, and is forgotten
// without a trace.
func TestImportedMemoryGoesOn(t *testing.T) {
	k := newKit(t)
	k.tenant("one")
	k.settleMemories()
	file := k.export()
	k.tenant("two")
	k.imported(file)
	if m := k.remember(memory.Spec{Key: "home", Content: "Ada lives in Braga"}); m.Version != 4 {
		t.Errorf("the next version is %d", m.Version)
	}
	if got := k.history("home", 50); len(got) != 3 || got[2].Content != "Ada lives in Lisbon" {
		t.Errorf("the history is %+v", got)
	}
	if _, err := k.Memories.Get(t.Context(), k.admin, ident.DefaultProject, "past"); err == nil {
		t.Error("an expired memory was imported")
	}
	k.advance(60 * aDay)
	k.drain()
	if _, err := k.Memories.Get(t.Context(), k.admin, ident.DefaultProject, "note"); err == nil {
		t.Error("a memory outlives its expiry")
	}
	for _, m := range k.memories(memory.Filter{}, 50) {
		k.forget(m.Key)
	}
	k.drain()
	for _, it := range k.everything("two") {
		if it.Key[0] == 'e' || it.Key[0] == 'v' && strings.Contains(string(it.Key), "lisbon") {
			t.Errorf("left: %q", it.Key)
		}
	}
	if k.holds("two", "Lisbon") || k.holds("two", "wörter") {
		t.Error("a forgotten memory is still stored")
	}
}

// The quota of memories holds for imports: a file that does not fit stores nothing.
func TestImportWithinMemoryQuota(t *testing.T) {
	source := newKit(t)
	source.tenant("one")
	source.settleMemories()
	file := source.export()
	for count, fits := range map[int]bool{26: false, 27: true} {
		k := openKit(t, memstore.New(), quota(memory.Quota{Count: count}))
		k.now = source.clock()
		k.tenant("two")
		_, err := k.tryImport(file)
		if fits != (err == nil) {
			t.Errorf("27 memories, room for %d: %v", count, err)
		}
		if n := len(k.memories(memory.Filter{}, 50)); !fits && n > 0 || fits && n != count {
			t.Errorf("room for %d: %d are there", count, n)
		}
	}
}

// hooked is a store that calls before each commit.
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

// What an import wrote of a board is swept where the process dies amid it, and an import that takes too long ends without
// a board.
func TestImportOfBoardThatEndsHalfway(t *testing.T) {
	source := newKit(t)
	source.tenant("one")
	source.settleBoards(manyWords)
	file := source.export()
	for name, halfway := range map[string]func(k *kit) error{
		"dies": func(*kit) error { return errors.New("broken") },
		"late": func(k *kit) error { k.advance(2 * time.Hour); k.drain(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			h := &hooked{Store: memstore.New()}
			k := openKit(t, h)
			k.now = source.clock()
			k.tenant("two")
			commits := 0
			h.before = func() error {
				if commits++; commits < 5 || name == "late" && commits > 5 {
					return nil
				}
				return halfway(k)
			}
			if _, err := k.tryImport(file); err == nil {
				t.Fatal("it went through")
			}
			h.before = nil
			if _, err := k.Boards.Get(t.Context(), k.admin, "infra"); err == nil {
				t.Error("half a board shows")
			}
			if !k.holds("two", "deployment") && name == "dies" {
				t.Fatal("nothing was written, so nothing is tested")
			}
			k.advance(2 * time.Hour)
			k.drain()
			if k.holds("two", "deployment") {
				t.Error("what was written is still stored")
			}
			k.imported(file)
			k.wholeBoards()
		})
	}
}
