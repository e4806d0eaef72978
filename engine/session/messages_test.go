package session_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// After any turns and rewinds, the living turns have together the messages of the session's list, every other turn is
// not found, and each message, also a superseded one, is the one of the list.
func TestTurnsAndMessagesAreThoseOfTheList(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 34))
		k := enginetest.New(t)
		last, first := uint32(0), session.TurnMessage{}
		for n := range 30 {
			if last > 0 && r.IntN(4) == 0 {
				if _, err := rewind(k, ident.Once{}, r.Uint32N(last+1), nil); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				continue
			}
			messages := []string{enginetest.User(fmt.Sprint("question ", n))}
			for i := range r.IntN(3) {
				messages = append(messages, enginetest.Assistant(fmt.Sprint("answer ", n, i)))
			}
			said := k.Post("s", messages...)
			last, first = said.Turn, said.Messages[0]
		}
		list := func(order session.MessageOrder) []session.Message {
			l, err := k.Sessions.ListMessages(k.Context(), k.Admin, ident.DefaultProject, "s", records.Page{Limit: 1000}, order)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return l.Data
		}
		living := list(session.MessageOrder{})
		var turns []session.Message
		for turn := range last + 2 {
			l, err := k.Sessions.Turn(k.Context(), k.Admin, ident.DefaultProject, "s", turn, records.Page{Limit: 2})
			if !slices.ContainsFunc(living, func(m session.Message) bool { return m.Turn == turn }) {
				wantCode(t, err, fault.NotFound, "not_found")
				continue
			}
			for turns = append(turns, l.Data...); err == nil && l.HasMore; turns = append(turns, l.Data...) {
				page := records.Page{Limit: 2, Cursor: *l.NextCursor}
				l, err = k.Sessions.Turn(k.Context(), k.Admin, ident.DefaultProject, "s", turn, page)
			}
			if err != nil {
				t.Fatalf("seed %d, turn %d: %v", seed, turn, err)
			}
		}
		if len(turns) != len(living) || len(living) > 0 && !reflect.DeepEqual(turns, living) {
			t.Fatalf("seed %d: the turns have %d messages, the list %d", seed, len(turns), len(living))
		}
		for _, m := range list(session.MessageOrder{Superseded: true}) {
			one, err := k.Sessions.Message(k.Context(), k.Admin, ident.DefaultProject, "s", m.ID)
			if err != nil || !reflect.DeepEqual(one, m) {
				t.Fatalf("seed %d: %+v, %v, want %+v", seed, one, err, m)
			}
		}
		for _, id := range []string{"", "msg_1", "x" + first.ID, first.ID + "0000"} {
			_, err := k.Sessions.Message(k.Context(), k.Admin, ident.DefaultProject, "s", id)
			wantCode(t, err, fault.NotFound, "not_found")
		}
	}
}
