package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
)

// talker is a client that sends its history to a model through Mneme.
type talker struct {
	*enginetest.Kit
	history []string
}

// ask sends the history with one more question, and stores the reply.
func (c *talker) ask(question, reply string) {
	c.Helper()
	c.history = append(c.history, enginetest.User(question))
	x, err := c.Dialogues.Begin(c.Context(), c.Admin, ident.DefaultProject, history.Ask{Session: "s", Format: chat.OpenAIChat,
		Messages: enginetest.Raw(c.history...), Resend: true})
	if err != nil {
		c.Fatal(err)
	}
	s, err := c.Dialogues.Commit(c.Context(), c.Admin, ident.DefaultProject, x,
		history.Reply{Messages: enginetest.Raw(enginetest.Assistant(reply))})
	if err != nil || s.Session != "s" || s.Turn == 0 {
		c.Fatalf("%s: %+v, %v", question, s, err)
	}
	c.history = append(c.history, enginetest.Assistant(reply))
}

// Text that was edited, removed or taken back is in no record and no export once its session is erased, and after the
// next daily job in no file. The decisions that may hold it are purged, the later ones replay, and the conversation goes
// on.
func TestErasedTextIsNowhere(t *testing.T) {
	dir := t.TempDir()
	db, err := badgerstore.Open(badgerstore.Options{Dir: dir, Uncompressed: true, ReserveBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c := &talker{Kit: enginetest.Open(t, db)}
	const word = "quixotr"
	c.Search(recall.Query{Query: "anything", Scope: "transcript"}) // From now on messages are indexed.
	first := c.Ask(`{"session_id":"s","pending":[{"role":"user","content":"Tell me of quixotry0 and the mills"}]}`)
	c.ask("Tell me of quixotry0 and the mills", "There was a knight who fought against them.")
	for i := range 60 { // enough for blocks of the index
		c.ask(fmt.Sprintf("Which river flows through town number %d?", i), fmt.Sprintf("Through town %d flows the river Po.", i))
	}
	c.ask("What of quixotry1?", "It is a word of quixotry1.")
	c.ask("And what else is there?", "There is quixotry2, of which a lot is told.")
	c.Ask(`{"session_id":"s"}`)
	c.Drain()
	if len(files(t, dir, word)) == 0 || !c.Holds(ident.DefaultTenant, word) {
		t.Fatal("the test sees nothing")
	}

	c.history[0] = enginetest.User("Tell me of [removed] and the mills")      // edited
	c.history = append(c.history[:122:122], c.history[124:]...)               // an exchange removed
	c.history = c.history[:len(c.history)-2]                                  // the last one taken back
	c.ask("And what else is there to be told?", "Nothing that I would know.") // in one request
	c.Drain()
	now := c.Ask(`{"session_id":"s"}`)
	before := c.GetSession("s")
	if !c.Holds(ident.DefaultTenant, word) {
		t.Fatal("nothing is kept for replays")
	}
	got, err := c.Sessions.Erase(t.Context(), c.Admin, ident.DefaultProject, "s")
	if err != nil || got.Messages != 4 || got.Changes != 1 || got.Revision != before.Revision+1 {
		t.Fatalf("%+v, %v", got, err)
	}
	again, err := c.Sessions.Erase(t.Context(), c.Admin, ident.DefaultProject, "s")
	if err != nil || again.Messages != 0 || again.Changes != 0 || again.Revision != got.Revision {
		t.Errorf("once more: %+v, %v", again, err)
	}
	c.Drain()
	c.Sound()
	var stored, counted uint64 // bytes of bodies
	for _, it := range c.Everything(ident.DefaultTenant) {
		if bytes.Contains(it.Value, []byte(word)) {
			t.Errorf("the record %q holds it: %.300q", it.Key, it.Value)
		}
		switch records.KindOf(ident.DefaultTenant, it.Key) {
		case records.Body:
			h, _, err := transcript.ParseBody(transcript.Sketch(it.Value))
			if err != nil {
				t.Fatal(err)
			}
			stored += uint64(h.BodyBytes)
		case records.Session:
			var h session.Head
			if err := json.Unmarshal(it.Value, &h); err != nil {
				t.Fatal(err)
			}
			counted += h.Bytes
		}
	}
	if stored != counted {
		t.Errorf("%d bytes are stored, and %d count against the quota", stored, counted)
	}
	if c.Holds(ident.DefaultTenant, word) || bytes.Contains(export(c.Kit), []byte(word)) {
		t.Error("a record or the export holds it")
	}
	c.Replay(now.DecisionID)
	_, err = c.Windows.Replay(t.Context(), c.Admin, ident.DefaultProject, first.DecisionID, nil)
	enginetest.RefusedWith(t, err, fault.Gone, "session_purged")
	if after := c.GetSession("s"); after.Messages != before.Messages || after.Turns != before.Turns || after.Tokens != before.Tokens {
		t.Errorf("%+v became %+v", before, after)
	}
	list, err := c.Sessions.ListMessages(t.Context(), c.Admin, ident.DefaultProject, "s", enginetest.All,
		session.MessageOrder{Superseded: true})
	if err != nil || strings.Contains(fmt.Sprint(list.Data), word) {
		t.Errorf("%v", err)
	}
	c.ask("Good bye", "See you soon.")
	c.Sound()
	c.Advance(enginetest.ADay + time.Minute)
	c.Drain()
	if names := files(t, dir, word); len(names) > 0 {
		t.Errorf("it is in %v", names)
	}
}
