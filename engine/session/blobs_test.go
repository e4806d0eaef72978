package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// screenshots returns a question, calls of a tool, and its results with a picture each.
func screenshots(n, size int) (out []string) {
	out = []string{enginetest.User("click through the form")}
	for i := range n {
		picture := strings.Repeat(fmt.Sprintf("%08d", i), size/8)
		out = append(out, enginetest.Call(fmt.Sprint("c", i), "click"), fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":[{"type":"text",`+
			`"text":"a \"screen\""},{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]}`, i, picture))
	}
	return append(out, enginetest.Assistant("It is sent."))
}

// messages returns what a session holds, as it was posted.
func messages(k *enginetest.Kit, id string) (out []string) {
	k.Helper()
	page := enginetest.All
	for {
		list, err := k.Sessions.ListMessages(k.Context(), k.Admin, ident.DefaultProject, id, page, session.MessageOrder{})
		if err != nil {
			k.Fatal(err)
		}
		for i := range list.Data {
			out = append(out, string(list.Data[i].Message))
		}
		if list.NextCursor == nil {
			return out
		}
		page.Cursor = *list.NextCursor
	}
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d messages, wanted %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: message %d has %d bytes, wanted %d: %.80s", what, i, len(got[i]), len(want[i]), got[i])
		}
	}
}

// TestLargeTurns stores a turn with 20 screenshots of 1 MB and one with a string of 10 MB. Lists, forks, copies, windows
// and a restarted server show the bytes that were posted.
func TestLargeTurns(t *testing.T) {
	raw := memstore.New()
	k := enginetest.Open(t, raw)
	want := screenshots(20, 1<<20)
	k.Post("s", want...)
	long := fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"read"},{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]}`,
		strings.Repeat("abcd", 10<<18))
	k.Post("s", long, enginetest.Assistant("Read."))
	want = append(want, long, enginetest.Assistant("Read."))
	same(t, "stored", messages(k, "s"), want)
	k.Sound()
	if _, err := k.Sessions.Fork(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "s", session.ForkRequest{As: "f"}); err != nil {
		t.Fatal(err)
	}
	file, err := k.Sessions.Export(t.Context(), k.Admin, ident.DefaultProject, "s")
	if err != nil {
		t.Fatal(err)
	}
	file.Session.ID = "c"
	if _, err := k.Sessions.Import(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, file); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Sessions.Rewind(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "f", session.RewindRequest{ToTurn: new(uint32(1))}); err != nil {
		t.Fatal(err)
	}
	k = enginetest.Open(t, raw)
	same(t, "copied", messages(k, "c"), want)
	same(t, "forked", messages(k, "f"), want[:len(want)-2])
	w := k.Ask(`{"session_id":"f"}`)
	if !slices.ContainsFunc(w.Messages, func(m json.RawMessage) bool { return bytes.Contains(m, []byte(strings.Repeat("00000019", 1<<17))) }) {
		t.Errorf("the window has %d messages", len(w.Messages))
	}
	k.Sound()
	for _, id := range []string{"s", "f", "c"} {
		if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, id); err != nil {
			t.Fatal(err)
		}
	}
	k.Drain()
	k.Sound()
	blobs(t, k, 0)
}

// blobs checks how many blobs are stored.
func blobs(t *testing.T, k *enginetest.Kit, want int) {
	t.Helper()
	n := 0
	for _, it := range k.Everything(k.Admin.Tenant) {
		if records.Blob.Is(it.Key) {
			n++
		}
	}
	if n != want {
		t.Errorf("%d blobs are stored, wanted %d", n, want)
	}
}

// bodiless is a store that accepts no bodies: the server dies before a turn's commit.
type bodiless struct{ store.Store }

func (s *bodiless) Commit(ctx context.Context, tenant string, b store.Batch) error {
	for _, p := range b.Put {
		if records.Body.Is(p.Key) {
			return store.ErrUnavailable
		}
	}
	return s.Store.Commit(ctx, tenant, b)
}

// TestLostTurns stores blobs whose turn never follows. They expire, and verify says so before. The turn can be sent again.
func TestLostTurns(t *testing.T) {
	raw := memstore.New()
	k := enginetest.Open(t, &bodiless{raw})
	want := screenshots(5, 1<<20)
	req := session.TurnRequest{SessionID: "s"}
	for _, m := range want {
		req.Messages = append(req.Messages, json.RawMessage(m))
	}
	if _, err := k.Sessions.AppendTurn(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, req); err == nil {
		t.Fatal("the turn was stored")
	}
	k = enginetest.Open(t, raw)
	k.Sound()
	blobs(t, k, 5)
	k.Post("s", want...)
	k.Sound()
	blobs(t, k, 10)
	k.Advance(25 * time.Hour)
	k.Drain()
	k.Sound()
	blobs(t, k, 5)
	same(t, "stored", messages(k, "s"), want)
}
