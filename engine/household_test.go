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

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// household fills a store with every kind of record, among them those of changes that are still under way.
func household(t testing.TB) *kit {
	k := openKit(t, memstore.New(), summariseWith(&scribe{}))
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	k.memorise()
	k.setIn(ident.DefaultProject, `{"summary_enabled":true}`)
	for n := 1; n < 120; n += 40 { // two summaries, and a third to be made
		k.drain()
		k.say("told", n, 50)
		k.ask(`{"session_id":"told"}`)
	}
	k.post("talk", user("hello"), call("c1", "tool"), result("c1", "done"), assistant("ok"))
	k.post("talk", user("again"), call("c2", "tool"), call("c3", "tool"))
	k.post("talk", result("c2", "done"))
	k.post("long", user(strings.Repeat("long ", 106_000)), assistant("short"))
	_, err := k.Sessions.AppendTurn(ctx, k.admin, access.Once{Key: "once", Body: [32]byte{1}}, ident.DefaultProject,
		session.TurnRequest{SessionID: "talk", Messages: []json.RawMessage{json.RawMessage(user("once"))}})
	must(err)
	_, err = k.Sessions.Create(ctx, k.admin, access.Once{}, ident.DefaultProject, session.Spec{ID: "empty"})
	must(err)
	k.upload("by-tag", tagged(t))
	k.upload("by-tag", keeping("verify"))
	k.upload("idle", keeping("verify")) // the same module once more
	k.setPipeline(`[{"policy":"by-tag"},{"policy":"tool-pair-trim"}]`)
	k.ask(`{"session_id":"talk"}`)
	k.ask(`{"session_id":"not-yet-there"}`)
	k.ask(`{"session_id":"empty","budget":{"max_tokens":0},"pending":[%s]}`, user(strings.Repeat("pending ", 66_000)))

	k.recollect()
	k.discuss()

	// Changes whose sweeps are still to come.
	k.post("gone", user("a"), assistant("b"))
	k.ask(`{"session_id":"gone"}`)
	must(k.Sessions.Delete(ctx, k.admin, ident.DefaultProject, "gone"))
	_, _, err = k.Projects.Put(ctx, k.admin, "gone", project.Spec{})
	must(err)
	_, err = k.Sessions.AppendTurn(ctx, k.admin, access.Once{}, "gone",
		session.TurnRequest{Messages: []json.RawMessage{json.RawMessage(user("x"))}})
	must(err)
	must(k.DeleteProject(ctx, k.admin, "gone"))
	for _, id := range []string{"acme", "leaving"} {
		_, err = k.CreateTenant(ctx, access.Once{Key: id, Seal: "root"}, tenant.Spec{ID: id})
		must(err)
	}
	must(k.DeleteTenant(ctx, "leaving"))
	write(t, k.store, ident.DefaultTenant, append([]byte("j\x00h"), "incarnat"...), []byte{0})
	// An import whose process was killed amid a session, and one amid a board.
	job := append([]byte("j\x00i"), 0, 0, 1, 0, 0, 0, 0, 0)
	write(t, k.store, ident.DefaultTenant, append(slices.Clone(job), "j\x00sincarnat"...), []byte("ofprojec"))
	write(t, k.store, ident.DefaultTenant, append(slices.Clone(job), "j\x00cc\x00incarnbd"...), []byte{0})
	underWay := append([]byte("f\x00"), strings.Repeat("incarnat", 4)...)
	write(t, k.store, ident.DefaultTenant, underWay, []byte(`{"lines":3}`))
	expiry := binary.BigEndian.AppendUint64([]byte("x\x00"), uint64(k.clock().Add(time.Hour).UnixMilli()))
	write(t, k.store, ident.DefaultTenant, append(expiry, underWay...), []byte{0})
	write(t, k.store, ident.DefaultTenant, append([]byte("m\x00incarnatb"), make([]byte, 8)...), []byte("half"))
	return k
}

// cycle is a text of n words, of which many are the same.
func cycle(n, distinct int, word string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%c%c ", word, 'a'+i%distinct/5, 'a'+i%5)
	}
	return b.String()
}

// tell posts a turn to the project whose transcripts are searched.
func (k *kit) tell(sessionID, text string) {
	k.Helper()
	_, err := k.Sessions.AppendTurn(k.Context(), k.admin, access.Once{}, "books",
		session.TurnRequest{SessionID: sessionID, Messages: []json.RawMessage{json.RawMessage(user(text))}})
	k.check(err)
}

// memorise keeps memories, and searches transcripts of a project, of which enough is put into blocks.
func (k *kit) memorise() {
	k.Helper()
	k.remember(memory.Spec{Key: "big", Content: cycle(10_000, 25, "or")})
	k.remember(memory.Spec{Key: "fat", Content: cycle(66_000, 25, "or")})
	k.project("books")
	k.tell("read", cycle(66_000, 3, "ch"))
	_, err := k.Recall.Recall(k.Context(), k.admin, "books", recall.Query{Query: "chaa", Scope: "transcript"})
	k.check(err)
	k.drain()
	k.tell("read", "a fresh page")
	k.tell("closed", "a page")
}

// recollect adds what is still to be put into blocks, or to be taken out.
func (k *kit) recollect() {
	k.Helper()
	k.tell("read", "unread as yet")
	k.check(k.Sessions.Delete(k.Context(), k.admin, "books", "closed"))
	k.forget("fat")
	for _, text := range []string{"one", "two", "three"} {
		k.remember(memory.Spec{Key: "note", Content: "version " + text, Tags: []string{"tag"}, Source: "me", SessionID: "talk"})
		k.advance(time.Second)
	}
	k.remember(memory.Spec{Key: "daily", Content: "for a while", Category: "daily"})
	k.remember(memory.Spec{Key: "long", Content: strings.Repeat("long ", 110_000)})
	for _, one := range rawRecords(k, k.store) { // as if there were thousands of sessions
		if bytes.HasPrefix(one.key, []byte("p\x00books")) {
			write(k, k.store, one.tenant, append([]byte("j\x00b"), k.incarnation(one)...), []byte{0})
		}
	}
	k.project("purged")
	_, err := k.Sessions.PurgeConversations(k.Context(), k.admin, session.PurgeSpec{ProjectID: "purged"})
	k.check(err)
}

// discuss makes boards with all that there can be on one.
func (k *kit) discuss() {
	k.Helper()
	days, ctx := 30, k.Context()
	_, _, err := k.Boards.Put(ctx, k.admin, "plans", board.Spec{Name: "Plans", RetentionDays: &days})
	k.check(err)
	for _, agent := range []string{"anna", "bert", "gone"} {
		k.member("plans", agent, board.AgentSpec{Lead: agent == "anna"})
	}
	k.write("plans", "an entry about apples", "fruit")
	k.write("plans", "@bert @gone look at this", "chat")
	k.write("plans", "does @bert agree?", "chat")
	k.write("plans", strings.Repeat("long ", 110_000))
	_, err = k.Boards.AckInbox(ctx, k.admin, access.Once{}, "plans", "bert", board.InboxAck{UpTo: k.inbox("plans", "bert").Items[0].ID})
	k.check(err)
	k.check(k.Boards.DeleteAgent(ctx, k.admin, "plans", "gone"))
	k.write("left", "nobody reads this")
	k.check(k.Boards.Delete(ctx, k.admin, "left"))
	_, err = k.Tenants.Authenticate(ctx, k.key(tenant.KeySpec{Name: "used"}).Key)
	k.check(err)
}

func (k *kit) check(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// incarnation reads that of a project or board from its record.
func (k *kit) incarnation(one rawRecord) []byte {
	k.Helper()
	var rec struct{ Incarnation string }
	k.check(json.Unmarshal(one.value[:len(one.value)-4], &rec))
	inc, err := hex.DecodeString(rec.Incarnation)
	k.check(err)
	return inc
}

// write puts a sealed record.
func write(t testing.TB, raw store.Store, tenant string, key, value []byte) {
	t.Helper()
	if err := store.Seal(raw).Commit(t.Context(), tenant, store.Batch{Put: []store.Pair{{Key: key, Value: value}}}); err != nil {
		t.Fatal(err)
	}
}
