package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

func (k *kit) write(id, content string, tags ...string) board.Entry {
	k.Helper()
	e, err := k.Boards.PostEntry(k.Context(), k.admin, access.Once{}, id, board.Post{Content: content, Tags: tags})
	if err != nil {
		k.Fatal(err)
	}
	return e
}

func (k *kit) member(board, agent string, spec board.AgentSpec) {
	k.Helper()
	if _, _, err := k.Boards.PutAgent(k.Context(), k.admin, board, agent, spec); err != nil {
		k.Fatal(err)
	}
}

func (k *kit) contents(board string, q board.Query) (out []string) {
	k.Helper()
	page, err := k.Boards.ListEntries(k.Context(), k.admin, board, q)
	if err != nil {
		k.Fatal(err)
	}
	for _, e := range page.Items {
		out = append(out, e.Content)
	}
	if page.Total < uint64(len(out)) {
		k.Errorf("total %d of %d items", page.Total, len(out))
	}
	return out
}

func (k *kit) inbox(id, agent string) board.InboxPage {
	k.Helper()
	page, err := k.Boards.Inbox(k.Context(), k.admin, id, agent, board.InboxQuery{Base: "http://here"})
	if err != nil {
		k.Fatal(err)
	}
	return page
}

// A repeated request is written once, notifies once, and is answered in full.
func TestBoardEntryIsWrittenOnce(t *testing.T) {
	k := newKit(t)
	k.member("b", "lead", board.AgentSpec{Lead: true})
	once := access.Once{Key: "k", Body: [32]byte{1}}
	post := board.Post{Content: strings.Repeat("long \x01", 100_000), Tags: []string{"chat"}}
	first, err := k.Boards.PostEntry(t.Context(), k.admin, once, "b", post)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.Boards.PostEntry(t.Context(), k.admin, once, "b", post)
	if err != nil || again.ID != first.ID || again.Content != post.Content || *again.Source != *first.Source {
		t.Errorf("again %s %d bytes, first %s: %v", again.ID, len(again.Content), first.ID, err)
	}
	if n := len(k.inbox("b", "lead").Items); n != 1 {
		t.Errorf("%d notifications", n)
	}
	once.Body[0]++
	_, err = k.Boards.PostEntry(t.Context(), k.admin, once, "b", post)
	wantKind(t, err, fault.Invalid)
}

// The largest entry, with more different words than are indexed, is stored whole, found, and deleted whole.
func TestLargestBoardEntry(t *testing.T) {
	k := newKit(t)
	for i := range 256 {
		k.member("b", fmt.Sprint("agent", i), board.AgentSpec{DisplayName: "All hands"})
	}
	_, _, err := k.Boards.PutAgent(t.Context(), k.admin, "b", "one-more", board.AgentSpec{})
	wantKind(t, err, fault.Conflict)
	var b strings.Builder
	for i := 0; b.Len() < 1<<20; i++ {
		fmt.Fprintf(&b, "word%d ", i)
	}
	content := "@all " + b.String()[:1<<20-5]
	tags := []string{"chat"}
	for i := range 63 {
		tags = append(tags, fmt.Sprint(strings.Repeat("t", 250), i))
	}
	k.write("b", content, tags...)
	if got := k.contents("b", board.Query{Filter: board.Filter{Text: "WORD7000 word1", Tags: tags[:32]}}); len(got) != 1 ||
		got[0] != content {
		t.Errorf("%d found", len(got))
	}
	if n := k.inbox("b", "agent255").Unread; n != 1 {
		t.Errorf("%d notifications", n)
	}
	_, err = k.Boards.PostEntry(t.Context(), k.admin, access.Once{}, "b", board.Post{Content: content + "x"})
	wantKind(t, err, fault.Invalid)
	if _, err := k.Boards.Purge(t.Context(), k.admin, "b", board.Purge{}); err != nil {
		t.Fatal(err)
	}
	if k.onBoards() != 256 { // the agents
		t.Errorf("%d records are left", k.onBoards())
	}
}

func TestBoardInput(t *testing.T) {
	k := newKit(t)
	days := 0
	tag := func(s string) board.Post { return board.Post{Content: "x", Tags: []string{s}} }
	for name, err := range map[string]error{
		"blank":         second(k.Boards.PostEntry(t.Context(), k.admin, access.Once{}, "b", board.Post{Content: " \n"})),
		"blank tag":     second(k.Boards.PostEntry(t.Context(), k.admin, access.Once{}, "b", tag(" "))),
		"long tag":      second(k.Boards.PostEntry(t.Context(), k.admin, access.Once{}, "b", tag(strings.Repeat("t", 257)))),
		"zero in tag":   second(k.Boards.PostEntry(t.Context(), k.admin, access.Once{}, "b", tag("a\x00b"))),
		"board id":      second(k.Boards.PostEntry(t.Context(), k.admin, access.Once{}, "b/c", board.Post{Content: "x"})),
		"no days":       third(k.Boards.Put(t.Context(), k.admin, "b", board.Spec{RetentionDays: &days})),
		"agent id":      third(k.Boards.PutAgent(t.Context(), k.admin, "b", "a b", board.AgentSpec{})),
		"purge of past": second(k.Boards.Purge(t.Context(), k.admin, "b", board.Purge{OlderThanDays: -1})),
	} {
		t.Run(name, func(t *testing.T) { wantKind(t, err, fault.Invalid) })
	}
	_, err := k.Boards.Get(t.Context(), k.admin, "b")
	wantKind(t, err, fault.NotFound) // nothing of it was stored
	k.write("b", "x")
	_, err = k.Boards.ListEntries(t.Context(), k.admin, "b", board.Query{Filter: board.Filter{Text: "?!"}})
	wantKind(t, err, fault.Invalid)
	_, err = k.Boards.Follow(t.Context(), k.admin, "b", board.Follow{After: "7"})
	wantKind(t, err, fault.Invalid)
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

// With an entry go the notifications that it raised, and the counts follow.
func TestPurgeWithdrawsNotifications(t *testing.T) {
	k := newKit(t)
	k.member("b", "lead", board.AgentSpec{Lead: true})
	k.member("b", "dev", board.AgentSpec{})
	k.write("b", "@dev confidential-old", "chat")
	k.write("b", "confidential-older", "chat")
	k.advance(48 * time.Hour)
	k.write("b", "@dev fresh", "chat")
	first := k.inbox("b", "lead").Items[0].ID
	if _, err := k.Boards.AckInbox(t.Context(), k.admin, access.Once{}, "b", "lead", board.InboxAck{UpTo: first}); err != nil {
		t.Fatal(err)
	}
	got, err := k.Boards.Purge(t.Context(), k.admin, "b", board.Purge{OlderThanDays: 1})
	if err != nil || got.DeletedEntries != 2 {
		t.Fatalf("%+v %v", got, err)
	}
	stats, err := k.Boards.Stats(t.Context(), k.admin, "b")
	want := []board.AgentStats{{Agent: "dev", Mentions: 1, Notifications: 1, Unread: 1},
		{Agent: "lead", Notifications: 1, Unread: 1}}
	if err != nil || stats.Entries != 1 || stats.ChatEntries != 1 || !slices.Equal(stats.Agents, want) ||
		!stats.OldestAt.Equal(*stats.NewestAt) {
		t.Errorf("%+v %v", stats, err)
	}
	if k.holds(ident.DefaultTenant, "confidential-") || k.holds(ident.DefaultTenant, "wconfidential\x00") {
		t.Error("the store still holds something of what was purged")
	}
	last := k.inbox("b", "lead")
	if len(last.Items) != 1 || last.Items[0].Snippet != "@dev fresh" {
		t.Errorf("inbox %+v", last)
	}
	ack := board.InboxAck{UpTo: last.Items[0].ID}
	if acked, err := k.Boards.AckInbox(t.Context(), k.admin, access.Once{}, "b", "lead", ack); err != nil || acked.Unread != 0 {
		t.Errorf("%+v %v", acked, err)
	}
	ack.UpTo = first // an earlier one takes nothing back
	if acked, err := k.Boards.AckInbox(t.Context(), k.admin, access.Once{}, "b", "lead", ack); err != nil || acked.Unread != 0 {
		t.Errorf("%+v %v", acked, err)
	}
	if !k.inbox("b", "lead").Items[0].Read {
		t.Error("what was acknowledged is not read")
	}
}

// Retention removes what is past its days, by itself, also in a process started later, and no sooner.
func TestBoardRetention(t *testing.T) {
	k := newKit(t)
	days := 7
	if _, _, err := k.Boards.Put(t.Context(), k.admin, "b", board.Spec{RetentionDays: &days}); err != nil {
		t.Fatal(err)
	}
	for range 300 { // more than one commit removes
		k.write("b", "old", "chat")
	}
	k.advance(24 * time.Hour)
	k.write("b", "young")
	k.write("forever", "kept")
	k.drain()
	k.advance(6 * 24 * time.Hour)
	k.drain()
	if n := len(k.contents("b", board.Query{Limit: 1000})); n != 301 {
		t.Fatalf("%d entries after seven days", n)
	}
	again := openKit(t, k.store)
	again.now = k.now.Add(time.Minute)
	again.drain()
	if got := again.contents("b", board.Query{}); !slices.Equal(got, []string{"young"}) {
		t.Errorf("after the restart there are %d entries", len(got))
	}
	again.advance(24 * time.Hour)
	again.drain()
	if got := again.contents("b", board.Query{}); got != nil {
		t.Errorf("a day later there is %q", got)
	}
	again.advance(1000 * 24 * time.Hour)
	again.drain()
	if got := again.contents("forever", board.Query{}); len(got) != 1 {
		t.Error("a board without retention has lost something")
	}
	if _, _, err := again.Boards.Put(t.Context(), k.admin, "b", board.Spec{}); err != nil {
		t.Fatal(err)
	}
	again.write("b", "kept from now on")
	again.advance(1000 * 24 * time.Hour)
	again.drain()
	if got := again.contents("b", board.Query{}); len(got) != 1 {
		t.Error("retention goes on after it was taken away")
	}
}

// A deleted board is gone at once, with its agents and notifications; so is an agent's inbox. A sweep leaves nothing.
func TestDeletedBoardLeavesNothing(t *testing.T) {
	k := newKit(t)
	days := 1
	if _, _, err := k.Boards.Put(t.Context(), k.admin, "b", board.Spec{Name: "confidential", RetentionDays: &days}); err != nil {
		t.Fatal(err)
	}
	k.member("b", "lead", board.AgentSpec{Lead: true})
	for range 50 {
		k.write("b", "confidential words", "chat", "confidential")
	}
	old := k.inbox("b", "lead").Items[3].ID
	if err := k.Boards.DeleteAgent(t.Context(), k.admin, "b", "lead"); err != nil {
		t.Fatal(err)
	}
	k.drain()
	if k.holds(ident.DefaultTenant, "confidential words\"") { // as a notification holds it
		t.Error("the store still holds the agent's inbox")
	}
	k.member("b", "lead", board.AgentSpec{Lead: true})
	k.write("b", "anew", "chat")
	page, err := k.Boards.Inbox(t.Context(), k.admin, "b", "lead", board.InboxQuery{After: old})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("behind a notification of an earlier inbox: %+v %v", page, err)
	}
	if err := k.Boards.Delete(t.Context(), k.admin, "b"); err != nil {
		t.Fatal(err)
	}
	_, err = k.Boards.ListEntries(t.Context(), k.admin, "b", board.Query{})
	wantKind(t, err, fault.NotFound)
	k.drain()
	if n := k.onBoards(); n > 0 || k.holds(ident.DefaultTenant, "confidential") {
		t.Errorf("%d records are left of the board", n)
	}
	k.advance(48 * time.Hour)
	k.drain() // no retention is left to fail
	audit, err := k.Tenants.ListAudit(t.Context(), k.admin, records.Page{})
	if err != nil || len(audit.Data) < 2 || audit.Data[0].Action != "board.delete" && audit.Data[1].Action != "board.delete" {
		t.Errorf("audit %+v %v", audit.Data, err)
	}
}

// Words are found in any script and case; a list of them means all.
func TestBoardWords(t *testing.T) {
	k := newKit(t)
	k.write("b", "Fehler in STRASSE #1234: «Überlauf», naïve café")
	k.write("b", "数据库迁移完成 in 45 seconds")
	k.write("b", strings.Repeat("x", 100)+" end")
	for text, want := range map[string]int{
		"strasse": 1, "überlauf 1234": 1, "CAFÉ": 1, "caf": 0, "in": 2, "in seconds": 1, "in nothing": 0,
		"数据": 1, "完成 45": 1, strings.Repeat("X", 100): 1, "END": 1,
	} {
		if got := k.contents("b", board.Query{Filter: board.Filter{Text: text}}); len(got) != want {
			t.Errorf("%s: %d found, want %d", text, len(got), want)
		}
	}
}

// An entry that the disk has spoilt is listed and streamed as damaged, never left out, and keeps nothing else back.
func TestDamagedBoardEntry(t *testing.T) {
	raw := &broken{Store: memstore.New()}
	k := openKit(t, raw)
	for i := range 5 {
		k.write("b", fmt.Sprint("n", i))
	}
	raw.spoil(func(key []byte) bool { return len(key) == 2+8+1+8 && key[0] == 'c' && key[10] == 'e' && key[18] == 3 })
	page, err := k.Boards.ListEntries(t.Context(), k.admin, "b", board.Query{Ascending: true})
	if err != nil || page.Total != 5 || len(page.Items) != 5 {
		t.Fatalf("%+v %v", page, err)
	}
	feed, err := k.Boards.Export(t.Context(), k.admin, "b")
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	events, err := feed.Next(t.Context())
	if err != nil || len(events) != 5 {
		t.Fatalf("%d events: %v", len(events), err)
	}
	for i, e := range page.Items {
		if e.Damaged != (i == 2) || events[i].ID != e.ID || events[i].Data.(board.Entry).Damaged != e.Damaged {
			t.Errorf("%d: %+v", i, e)
		}
	}
	got, err := k.Boards.Purge(t.Context(), k.admin, "b", board.Purge{IsChat: new(bool)})
	if err != nil || got.DeletedEntries != 4 {
		t.Errorf("purging around it: %+v %v", got, err)
	}
	k.write("b", "n5")
	// Lost altogether is no different.
	if err := store.Seal(raw).Commit(t.Context(), ident.DefaultTenant, store.Batch{Delete: [][]byte{k.entryKeys()[1]}}); err != nil {
		t.Fatal(err)
	}
	page, err = k.Boards.ListEntries(t.Context(), k.admin, "b", board.Query{Ascending: true})
	if err != nil || len(page.Items) != 2 || !page.Items[0].Damaged || !page.Items[1].Damaged {
		t.Errorf("%+v %v", page, err)
	}
}

// entryKeys are the keys of the entries of the one board there is.
func (k *kit) entryKeys() (out [][]byte) {
	for _, it := range k.everything(ident.DefaultTenant) {
		if len(it.Key) == 2+8+1+8 && it.Key[0] == 'c' && it.Key[10] == 'e' {
			out = append(out, it.Key)
		}
	}
	return out
}
