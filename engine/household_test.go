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

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
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
	k.setIn(engine.DefaultProject, `{"summary_enabled":true}`)
	for n := 1; n < 120; n += 40 { // two summaries, and a third to be made
		k.drain()
		k.say("told", n, 50)
		k.ask(`{"session_id":"told"}`)
	}
	k.post("talk", user("hello"), call("c1", "tool"), result("c1", "done"), assistant("ok"))
	k.post("talk", user("again"), call("c2", "tool"), call("c3", "tool"))
	k.post("talk", result("c2", "done"))
	k.post("long", user(strings.Repeat("long ", 106_000)), assistant("short"))
	_, err := k.AppendTurn(ctx, k.admin, engine.Once{Key: "once", Body: [32]byte{1}}, engine.DefaultProject,
		engine.TurnRequest{SessionID: "talk", Messages: []json.RawMessage{json.RawMessage(user("once"))}})
	must(err)
	_, err = k.CreateSession(ctx, k.admin, engine.Once{}, engine.DefaultProject, engine.SessionSpec{ID: "empty"})
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
	must(k.DeleteSession(ctx, k.admin, engine.DefaultProject, "gone"))
	_, _, err = k.PutProject(ctx, k.admin, "gone", engine.ProjectSpec{})
	must(err)
	_, err = k.AppendTurn(ctx, k.admin, engine.Once{}, "gone",
		engine.TurnRequest{Messages: []json.RawMessage{json.RawMessage(user("x"))}})
	must(err)
	must(k.DeleteProject(ctx, k.admin, "gone"))
	for _, id := range []string{"acme", "leaving"} {
		_, err = k.CreateTenant(ctx, engine.Once{Key: id, Seal: "root"}, engine.TenantSpec{ID: id})
		must(err)
	}
	must(k.DeleteTenant(ctx, "leaving"))
	write(t, k.store, engine.DefaultTenant, append([]byte("j\x00h"), "incarnat"...), []byte{0})
	// An import whose process was killed amid a session, and one amid a board.
	job := append([]byte("j\x00i"), 0, 0, 1, 0, 0, 0, 0, 0)
	write(t, k.store, engine.DefaultTenant, append(slices.Clone(job), "j\x00sincarnat"...), []byte("ofprojec"))
	write(t, k.store, engine.DefaultTenant, append(slices.Clone(job), "j\x00cc\x00incarnbd"...), []byte{0})
	underWay := append([]byte("f\x00"), strings.Repeat("incarnat", 4)...)
	write(t, k.store, engine.DefaultTenant, underWay, []byte(`{"lines":3}`))
	expiry := binary.BigEndian.AppendUint64([]byte("x\x00"), uint64(k.clock().Add(time.Hour).UnixMilli()))
	write(t, k.store, engine.DefaultTenant, append(expiry, underWay...), []byte{0})
	write(t, k.store, engine.DefaultTenant, append([]byte("m\x00incarnatb"), make([]byte, 8)...), []byte("half"))
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
func (k *kit) tell(session, text string) {
	k.Helper()
	_, err := k.AppendTurn(k.Context(), k.admin, engine.Once{}, "books",
		engine.TurnRequest{SessionID: session, Messages: []json.RawMessage{json.RawMessage(user(text))}})
	k.check(err)
}

// memorise keeps memories, and searches transcripts of a project, of which enough is put into blocks.
func (k *kit) memorise() {
	k.Helper()
	k.remember(engine.MemorySpec{Key: "big", Content: cycle(10_000, 25, "or")})
	k.remember(engine.MemorySpec{Key: "fat", Content: cycle(66_000, 25, "or")})
	k.project("books")
	k.tell("read", cycle(66_000, 3, "ch"))
	_, err := k.Recall(k.Context(), k.admin, "books", engine.RecallQuery{Query: "chaa", Scope: "transcript"})
	k.check(err)
	k.drain()
	k.tell("read", "a fresh page")
	k.tell("closed", "a page")
}

// recollect adds what is still to be put into blocks, or to be taken out.
func (k *kit) recollect() {
	k.Helper()
	k.tell("read", "unread as yet")
	k.check(k.DeleteSession(k.Context(), k.admin, "books", "closed"))
	k.forget("fat")
	for _, text := range []string{"one", "two", "three"} {
		k.remember(engine.MemorySpec{Key: "note", Content: "version " + text, Tags: []string{"tag"}, Source: "me", SessionID: "talk"})
		k.advance(time.Second)
	}
	k.remember(engine.MemorySpec{Key: "daily", Content: "for a while", Category: "daily"})
	k.remember(engine.MemorySpec{Key: "long", Content: strings.Repeat("long ", 110_000)})
	for _, one := range rawRecords(k, k.store) { // as if there were thousands of sessions
		if bytes.HasPrefix(one.key, []byte("p\x00books")) {
			write(k, k.store, one.tenant, append([]byte("j\x00b"), k.incarnation(one)...), []byte{0})
		}
	}
	k.project("purged")
	_, err := k.PurgeConversations(k.Context(), k.admin, engine.PurgeSpec{ProjectID: "purged"})
	k.check(err)
}

// discuss makes boards with all that there can be on one.
func (k *kit) discuss() {
	k.Helper()
	days, ctx := 30, k.Context()
	_, _, err := k.PutBoard(ctx, k.admin, "plans", engine.BoardSpec{Name: "Plans", RetentionDays: &days})
	k.check(err)
	for _, agent := range []string{"anna", "bert", "gone"} {
		k.member("plans", agent, engine.BoardAgentSpec{Lead: agent == "anna"})
	}
	k.write("plans", "an entry about apples", "fruit")
	k.write("plans", "@bert @gone look at this", "chat")
	k.write("plans", "does @bert agree?", "chat")
	k.write("plans", strings.Repeat("long ", 110_000))
	_, err = k.AckInbox(ctx, k.admin, engine.Once{}, "plans", "bert", engine.InboxAck{UpTo: k.inbox("plans", "bert").Items[0].ID})
	k.check(err)
	k.check(k.DeleteBoardAgent(ctx, k.admin, "plans", "gone"))
	k.write("left", "nobody reads this")
	k.check(k.DeleteBoard(ctx, k.admin, "left"))
	_, err = k.Authenticate(ctx, k.key(engine.KeySpec{Name: "used"}).Key)
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
