package board_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// A repeated request writes and notifies once, and gets the whole response again.
func TestBoardEntryIsWrittenOnce(t *testing.T) {
	k := enginetest.New(t)
	k.Member("b", "lead", board.AgentSpec{Lead: true})
	once := ident.Once{Key: "k", Body: [32]byte{1}}
	post := board.Post{Content: strings.Repeat("long \x01", 100_000), Tags: []string{"chat"}}
	first, err := k.Boards.PostEntry(t.Context(), k.Admin, once, "b", post)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.Boards.PostEntry(t.Context(), k.Admin, once, "b", post)
	if err != nil || again.ID != first.ID || again.Content != post.Content || *again.Source != *first.Source {
		t.Errorf("again %s %d bytes, first %s: %v", again.ID, len(again.Content), first.ID, err)
	}
	if n := len(k.Inbox("b", "lead").Items); n != 1 {
		t.Errorf("%d notifications", n)
	}
	once.Body[0]++
	_, err = k.Boards.PostEntry(t.Context(), k.Admin, once, "b", post)
	enginetest.WantKind(t, err, fault.Invalid)
}

// The largest entry, with more distinct words than are indexed, is stored, found and deleted completely.
func TestLargestBoardEntry(t *testing.T) {
	k := enginetest.New(t)
	for i := range 256 {
		k.Member("b", fmt.Sprint("agent", i), board.AgentSpec{DisplayName: "All hands"})
	}
	_, _, err := k.Boards.PutAgent(t.Context(), k.Admin, "b", "one-more", board.AgentSpec{})
	enginetest.WantKind(t, err, fault.Conflict)
	var b strings.Builder
	for i := 0; b.Len() < 1<<20; i++ {
		fmt.Fprintf(&b, "word%d ", i)
	}
	content := "@all " + b.String()[:1<<20-5]
	tags := []string{"chat"}
	for i := range 63 {
		tags = append(tags, fmt.Sprint(strings.Repeat("t", 250), i))
	}
	k.Write("b", content, tags...)
	if got := k.Contents("b", board.Query{Filter: board.Filter{Text: "WORD7000 word1", Tags: tags[:32]}}); len(got) != 1 ||
		got[0] != content {
		t.Errorf("%d found", len(got))
	}
	if n := k.Inbox("b", "agent255").Unread; n != 1 {
		t.Errorf("%d notifications", n)
	}
	_, err = k.Boards.PostEntry(t.Context(), k.Admin, ident.Once{}, "b", board.Post{Content: content + "x"})
	enginetest.WantKind(t, err, fault.Invalid)
	if _, err := k.Boards.Purge(t.Context(), k.Admin, "b", board.Purge{}); err != nil {
		t.Fatal(err)
	}
	if onBoards(k) != 256 { // the agents
		t.Errorf("%d records are left", onBoards(k))
	}
}

func TestBoardInput(t *testing.T) {
	k := enginetest.New(t)
	days := 0
	tag := func(s string) board.Post { return board.Post{Content: "x", Tags: []string{s}} }
	for name, err := range map[string]error{
		"blank":         second(k.Boards.PostEntry(t.Context(), k.Admin, ident.Once{}, "b", board.Post{Content: " \n"})),
		"blank tag":     second(k.Boards.PostEntry(t.Context(), k.Admin, ident.Once{}, "b", tag(" "))),
		"long tag":      second(k.Boards.PostEntry(t.Context(), k.Admin, ident.Once{}, "b", tag(strings.Repeat("t", 257)))),
		"zero in tag":   second(k.Boards.PostEntry(t.Context(), k.Admin, ident.Once{}, "b", tag("a\x00b"))),
		"board id":      second(k.Boards.PostEntry(t.Context(), k.Admin, ident.Once{}, "b\tc", board.Post{Content: "x"})),
		"no days":       third(k.Boards.Put(t.Context(), k.Admin, "b", board.Spec{RetentionDays: &days})),
		"agent id":      third(k.Boards.PutAgent(t.Context(), k.Admin, "b", "a\tb", board.AgentSpec{})),
		"purge of past": second(k.Boards.Purge(t.Context(), k.Admin, "b", board.Purge{OlderThanDays: -1})),
	} {
		t.Run(name, func(t *testing.T) { enginetest.WantKind(t, err, fault.Invalid) })
	}
	_, err := k.Boards.Get(t.Context(), k.Admin, "b")
	enginetest.WantKind(t, err, fault.NotFound) // nothing of it was stored
	k.Write("b", "x")
	_, err = k.Boards.ListEntries(t.Context(), k.Admin, "b", board.Query{Filter: board.Filter{Text: "?!"}})
	enginetest.WantKind(t, err, fault.Invalid)
	_, err = k.Boards.Follow(t.Context(), k.Admin, "b", board.Follow{After: "7"})
	enginetest.WantKind(t, err, fault.Invalid)
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

// Deleting an entry deletes the notifications that it caused, and updates the counts.
func TestPurgeWithdrawsNotifications(t *testing.T) {
	k := enginetest.New(t)
	k.Member("b", "lead", board.AgentSpec{Lead: true})
	k.Member("b", "dev", board.AgentSpec{})
	k.Write("b", "@dev confidential-old", "chat")
	k.Write("b", "confidential-older", "chat")
	k.Advance(48 * time.Hour)
	k.Write("b", "@dev fresh", "chat")
	first := k.Inbox("b", "lead").Items[0].ID
	if _, err := k.Boards.AckInbox(t.Context(), k.Admin, ident.Once{}, "b", "lead", board.InboxAck{UpTo: first}); err != nil {
		t.Fatal(err)
	}
	got, err := k.Boards.Purge(t.Context(), k.Admin, "b", board.Purge{OlderThanDays: 1})
	if err != nil || got.DeletedEntries != 2 {
		t.Fatalf("%+v %v", got, err)
	}
	stats, err := k.Boards.Stats(t.Context(), k.Admin, "b")
	want := []board.AgentStats{{Agent: "dev", Mentions: 1, Notifications: 1, Unread: 1},
		{Agent: "lead", Notifications: 1, Unread: 1}}
	if err != nil || stats.Entries != 1 || stats.ChatEntries != 1 || !slices.Equal(stats.Agents, want) ||
		!stats.OldestAt.Equal(*stats.NewestAt) {
		t.Errorf("%+v %v", stats, err)
	}
	if k.Holds(ident.DefaultTenant, "confidential-") || k.Holds(ident.DefaultTenant, "wconfidential\x00") {
		t.Error("the store still holds something of what was purged")
	}
	last := k.Inbox("b", "lead")
	if len(last.Items) != 1 || last.Items[0].Snippet != "@dev fresh" {
		t.Errorf("inbox %+v", last)
	}
	ack := board.InboxAck{UpTo: last.Items[0].ID}
	if acked, err := k.Boards.AckInbox(t.Context(), k.Admin, ident.Once{}, "b", "lead", ack); err != nil || acked.Unread != 0 {
		t.Errorf("%+v %v", acked, err)
	}
	ack.UpTo = first // an earlier one changes nothing
	if acked, err := k.Boards.AckInbox(t.Context(), k.Admin, ident.Once{}, "b", "lead", ack); err != nil || acked.Unread != 0 {
		t.Errorf("%+v %v", acked, err)
	}
	if !k.Inbox("b", "lead").Items[0].Read {
		t.Error("what was acknowledged is not read")
	}
}

// Retention removes entries that are too old by itself, also in a process started later, and not too early.
func TestBoardRetention(t *testing.T) {
	k := enginetest.New(t)
	days := 7
	if _, _, err := k.Boards.Put(t.Context(), k.Admin, "b", board.Spec{RetentionDays: &days}); err != nil {
		t.Fatal(err)
	}
	for range 300 { // more than one commit removes
		k.Write("b", "old", "chat")
	}
	k.Advance(24 * time.Hour)
	k.Write("b", "young")
	k.Write("forever", "kept")
	k.Drain()
	k.Advance(6 * 24 * time.Hour)
	k.Drain()
	if n := len(k.Contents("b", board.Query{Limit: 1000})); n != 301 {
		t.Fatalf("%d entries after seven days", n)
	}
	again := enginetest.Open(t, k.Store)
	again.Now = k.Now.Add(time.Minute)
	again.Drain()
	if got := again.Contents("b", board.Query{}); !slices.Equal(got, []string{"young"}) {
		t.Errorf("after the restart there are %d entries", len(got))
	}
	again.Advance(24 * time.Hour)
	again.Drain()
	if got := again.Contents("b", board.Query{}); got != nil {
		t.Errorf("a day later there is %q", got)
	}
	again.Advance(1000 * 24 * time.Hour)
	again.Drain()
	if got := again.Contents("forever", board.Query{}); len(got) != 1 {
		t.Error("a board without retention has lost something")
	}
	if _, _, err := again.Boards.Put(t.Context(), k.Admin, "b", board.Spec{}); err != nil {
		t.Fatal(err)
	}
	again.Write("b", "kept from now on")
	again.Advance(1000 * 24 * time.Hour)
	again.Drain()
	if got := again.Contents("b", board.Query{}); len(got) != 1 {
		t.Error("retention goes on after it was taken away")
	}
}

// A deleted board is gone at once, with its agents and notifications; so is the inbox of a deleted agent. After the
// sweep nothing is left.
func TestDeletedBoardLeavesNothing(t *testing.T) {
	k := enginetest.New(t)
	days := 1
	if _, _, err := k.Boards.Put(t.Context(), k.Admin, "b", board.Spec{Name: "confidential", RetentionDays: &days}); err != nil {
		t.Fatal(err)
	}
	k.Member("b", "lead", board.AgentSpec{Lead: true})
	for range 50 {
		k.Write("b", "confidential words", "chat", "confidential")
	}
	old := k.Inbox("b", "lead").Items[3].ID
	if err := k.Boards.DeleteAgent(t.Context(), k.Admin, "b", "lead"); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	if k.Holds(ident.DefaultTenant, "confidential words\"") { // as a notification holds it
		t.Error("the store still holds the agent's inbox")
	}
	k.Member("b", "lead", board.AgentSpec{Lead: true})
	k.Write("b", "anew", "chat")
	page, err := k.Boards.Inbox(t.Context(), k.Admin, "b", "lead", board.InboxQuery{After: old})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("behind a notification of an earlier inbox: %+v %v", page, err)
	}
	if err := k.Boards.Delete(t.Context(), k.Admin, "b"); err != nil {
		t.Fatal(err)
	}
	_, err = k.Boards.ListEntries(t.Context(), k.Admin, "b", board.Query{})
	enginetest.WantKind(t, err, fault.NotFound)
	k.Drain()
	if n := onBoards(k); n > 0 || k.Holds(ident.DefaultTenant, "confidential") {
		t.Errorf("%d records are left of the board", n)
	}
	k.Advance(48 * time.Hour)
	k.Drain() // no retention is left to fail
	audit, err := k.Tenants.ListAudit(t.Context(), k.Admin, records.Page{})
	if err != nil || len(audit.Data) < 2 || audit.Data[0].Action != "board.delete" && audit.Data[1].Action != "board.delete" {
		t.Errorf("audit %+v %v", audit.Data, err)
	}
}

// Words are found in any script and case. Several words must all be present.
func TestBoardWords(t *testing.T) {
	k := enginetest.New(t)
	k.Write("b", "Fehler in STRASSE #1234: «Überlauf», naïve café")
	k.Write("b", "数据库迁移完成 in 45 seconds")
	k.Write("b", strings.Repeat("x", 100)+" end")
	for text, want := range map[string]int{
		"strasse": 1, "überlauf 1234": 1, "CAFÉ": 1, "caf": 0, "in": 2, "in seconds": 1, "in nothing": 0,
		"数据": 1, "完成 45": 1, strings.Repeat("X", 100): 1, "END": 1,
	} {
		if got := k.Contents("b", board.Query{Filter: board.Filter{Text: text}}); len(got) != want {
			t.Errorf("%s: %d found, want %d", text, len(got), want)
		}
	}
}

// A damaged entry is listed and streamed as damaged, never left out, and does not block other entries.
func TestDamagedBoardEntry(t *testing.T) {
	raw := &enginetest.Broken{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	for i := range 5 {
		k.Write("b", fmt.Sprint("n", i))
	}
	raw.Spoil(func(key []byte) bool { return len(key) == 2+8+1+8 && key[0] == 'c' && key[10] == 'e' && key[18] == 3 })
	page, err := k.Boards.ListEntries(t.Context(), k.Admin, "b", board.Query{Ascending: true})
	if err != nil || page.Total != 5 || len(page.Items) != 5 {
		t.Fatalf("%+v %v", page, err)
	}
	feed, err := k.Boards.Export(t.Context(), k.Admin, "b")
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
	got, err := k.Boards.Purge(t.Context(), k.Admin, "b", board.Purge{IsChat: new(bool)})
	if err != nil || got.DeletedEntries != 4 {
		t.Errorf("purging around it: %+v %v", got, err)
	}
	k.Write("b", "n5")
	// The same holds for an entry that is lost altogether.
	if err := store.Seal(raw).Commit(t.Context(), ident.DefaultTenant, store.Batch{Delete: [][]byte{entryKeys(k)[1]}}); err != nil {
		t.Fatal(err)
	}
	page, err = k.Boards.ListEntries(t.Context(), k.Admin, "b", board.Query{Ascending: true})
	if err != nil || len(page.Items) != 2 || !page.Items[0].Damaged || !page.Items[1].Damaged {
		t.Errorf("%+v %v", page, err)
	}
}

// entryKeys returns the keys of the entries of the only board.
func entryKeys(k *enginetest.Kit) (out [][]byte) {
	for _, it := range k.Everything(ident.DefaultTenant) {
		if len(it.Key) == 2+8+1+8 && it.Key[0] == 'c' && it.Key[10] == 'e' {
			out = append(out, it.Key)
		}
	}
	return out
}
