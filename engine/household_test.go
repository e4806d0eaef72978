package engine_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// household fills a store with every kind of record, including those of unfinished changes.
func household(t testing.TB) *enginetest.Kit {
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(&enginetest.Scribe{}))
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	memorise(k)
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true}`)
	for n := 1; n < 120; n += 40 { // two summaries, and a third that is due
		k.Drain()
		k.Say("told", n, 50)
		k.Ask(`{"session_id":"told"}`)
	}
	k.Post("talk", enginetest.User("hello"), enginetest.Call("c1", "tool"), enginetest.Result("c1", "done"), enginetest.Assistant("ok"))
	k.Post("talk", enginetest.User("again"), enginetest.Call("c2", "tool"), enginetest.Call("c3", "tool"))
	k.Post("talk", enginetest.Result("c2", "done"))
	k.Post("long", enginetest.User(strings.Repeat("long ", 106_000)), enginetest.Assistant("short"))
	_, err := k.Sessions.AppendTurn(ctx, k.Admin, ident.Once{Key: "once", Body: [32]byte{1}}, ident.DefaultProject,
		session.TurnRequest{SessionID: "talk", Messages: []json.RawMessage{json.RawMessage(enginetest.User("once"))}})
	must(err)
	_, err = k.Sessions.Create(ctx, k.Admin, ident.Once{}, ident.DefaultProject, session.Spec{ID: "empty"})
	must(err)
	k.Upload("by-tag", enginetest.Tagged(t))
	k.Upload("by-tag", enginetest.Keeping("verify"))
	k.Upload("idle", enginetest.Keeping("verify")) // the same module again
	k.SetPipeline(`[{"policy":"by-tag"},{"policy":"tool-pair-trim"}]`)
	k.Ask(`{"session_id":"talk"}`)
	k.Ask(`{"session_id":"not-yet-there"}`)
	k.Ask(`{"session_id":"empty","budget":{"max_tokens":0},"pending":[%s]}`, enginetest.User(strings.Repeat("pending ", 66_000)))

	recollect(k)
	discuss(k)

	// Changes whose sweeps are pending.
	k.Post("gone", enginetest.User("a"), enginetest.Assistant("b"))
	k.Ask(`{"session_id":"gone"}`)
	must(k.Sessions.Delete(ctx, k.Admin, ident.DefaultProject, "gone"))
	_, _, err = k.Projects.Put(ctx, k.Admin, "gone", project.Spec{})
	must(err)
	_, err = k.Sessions.AppendTurn(ctx, k.Admin, ident.Once{}, "gone",
		session.TurnRequest{Messages: []json.RawMessage{json.RawMessage(enginetest.User("x"))}})
	must(err)
	must(k.DeleteProject(ctx, k.Admin, "gone"))
	for _, id := range []string{"acme", "leaving"} {
		_, err = k.CreateTenant(ctx, ident.Once{Key: id, Seal: "root"}, tenant.Spec{ID: id})
		must(err)
	}
	must(k.DeleteTenant(ctx, "leaving"))
	write(t, k.Store, ident.DefaultTenant, append([]byte("j\x00h"), "incarnat"...), []byte{0})
	// An import whose process was killed during a session, and one during a board.
	job := append([]byte("j\x00i"), 0, 0, 1, 0, 0, 0, 0, 0)
	write(t, k.Store, ident.DefaultTenant, append(slices.Clone(job), "j\x00sincarnat"...), []byte("ofprojec"))
	write(t, k.Store, ident.DefaultTenant, append(slices.Clone(job), "j\x00cc\x00incarnbd"...), []byte{0})
	underWay := append([]byte("f\x00"), strings.Repeat("incarnat", 4)...)
	write(t, k.Store, ident.DefaultTenant, underWay, []byte(`{"lines":3}`))
	expiry := binary.BigEndian.AppendUint64([]byte("x\x00"), uint64(k.Clock().Add(time.Hour).UnixMilli()))
	write(t, k.Store, ident.DefaultTenant, append(expiry, underWay...), []byte{0})
	write(t, k.Store, ident.DefaultTenant, append([]byte("m\x00incarnatb"), make([]byte, 8)...), []byte("half"))
	return k
}

// cycle returns a text of n words, many of them repeated.
func cycle(n, distinct int, word string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%c%c ", word, 'a'+i%distinct/5, 'a'+i%5)
	}
	return b.String()
}

// tell posts a turn to the project whose transcripts are searched.
func tell(k *enginetest.Kit, sessionID, text string) {
	k.Helper()
	_, err := k.Sessions.AppendTurn(k.Context(), k.Admin, ident.Once{}, "books",
		session.TurnRequest{SessionID: sessionID, Messages: []json.RawMessage{json.RawMessage(enginetest.User(text))}})
	check(k, err)
}

// memorise stores memories and transcripts that are searched, enough for blocks of the index.
func memorise(k *enginetest.Kit) {
	k.Helper()
	k.Remember(memory.Spec{Key: "big", Content: cycle(10_000, 25, "or")})
	k.Remember(memory.Spec{Key: "fat", Content: cycle(66_000, 25, "or")})
	k.MakeProject("books")
	tell(k, "read", cycle(66_000, 3, "ch"))
	_, err := k.Recall.Recall(k.Context(), k.Admin, "books", recall.Query{Query: "chaa", Scope: "transcript"})
	check(k, err)
	k.Drain()
	tell(k, "read", "a fresh page")
	tell(k, "closed", "a page")
}

// recollect adds documents that are not yet in blocks, or not yet removed from them.
func recollect(k *enginetest.Kit) {
	k.Helper()
	tell(k, "read", "unread as yet")
	check(k, k.Sessions.Delete(k.Context(), k.Admin, "books", "closed"))
	k.Remember(memory.Spec{Key: "fat", Content: "thin by now"}) // so that its previous content must be removed
	for _, text := range []string{"one", "two", "three"} {
		k.Remember(memory.Spec{Key: "note", Content: "version " + text, Tags: []string{"tag"}, Source: "me", SessionID: "talk"})
		k.Advance(time.Second)
	}
	k.Remember(memory.Spec{Key: "daily", Content: "for a while", Category: "daily"})
	k.Remember(memory.Spec{Key: "long", Content: strings.Repeat("long ", 110_000)})
	for _, one := range rawRecords(k, k.Store) { // as if there were thousands of sessions
		if bytes.HasPrefix(one.key, []byte("p\x00books")) {
			write(k, k.Store, one.tenant, append([]byte("j\x00b"), incarnation(k, one)...), []byte{0})
		}
	}
	k.MakeProject("purged")
	_, err := k.Sessions.PurgeConversations(k.Context(), k.Admin, session.PurgeSpec{ProjectID: "purged"})
	check(k, err)
}

// discuss creates boards with every kind of content.
func discuss(k *enginetest.Kit) {
	k.Helper()
	days, ctx := 30, k.Context()
	_, _, err := k.Boards.Put(ctx, k.Admin, "plans", board.Spec{Name: "Plans", RetentionDays: &days})
	check(k, err)
	for _, agent := range []string{"anna", "bert", "gone"} {
		k.Member("plans", agent, board.AgentSpec{Lead: agent == "anna"})
	}
	k.Write("plans", "an entry about apples", "fruit")
	k.Write("plans", "@bert @gone look at this", "chat")
	k.Write("plans", "does @bert agree?", "chat")
	k.Write("plans", "long "+strings.Repeat("=", 550_000)) // of few words, because verify reads each many times
	_, err = k.Boards.AckInbox(ctx, k.Admin, ident.Once{}, "plans", "bert", board.InboxAck{UpTo: k.Inbox("plans", "bert").Items[0].ID})
	check(k, err)
	check(k, k.Boards.DeleteAgent(ctx, k.Admin, "plans", "gone"))
	for _, key := range []string{"progress", "owner"} {
		_, _, err = k.Boards.PutValue(ctx, k.Admin, "plans", key, board.ValueSpec{Value: []byte(`{"of":"plums"}`)})
		check(k, err)
	}
	k.Write("left", "nobody reads this")
	check(k, k.Boards.Delete(ctx, k.Admin, "left"))
	_, err = k.Tenants.Authenticate(ctx, k.MakeKey(tenant.KeySpec{Name: "used"}).Key)
	check(k, err)
}

func check(k *enginetest.Kit, err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// incarnation returns the incarnation of a project or board from its record.
func incarnation(k *enginetest.Kit, one rawRecord) []byte {
	k.Helper()
	var rec struct{ Incarnation string }
	check(k, json.Unmarshal(one.value[:len(one.value)-4], &rec))
	inc, err := hex.DecodeString(rec.Incarnation)
	check(k, err)
	return inc
}

// write puts a sealed record.
func write(t testing.TB, raw store.Store, tenant string, key, value []byte) {
	t.Helper()
	if err := store.Seal(raw).Commit(t.Context(), tenant, store.Batch{Put: []store.Pair{{Key: key, Value: value}}}); err != nil {
		t.Fatal(err)
	}
}
