package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// itemReference is the type of an item that refers to another one, which the provider stores. By default, Vercel's AI
// SDK sends the model's items like this.
const itemReference = "item_reference"

// items are the items with ids of a session and its forks.
type items struct {
	byID map[string]json.RawMessage
	read map[ident.Incarnation]uint64 // the number of messages that were read
}

func (s *items) weigh() int {
	n := 64 * len(s.read)
	for id, raw := range s.byID {
		n += 64 + len(id) + len(raw)
	}
	return n
}

func (s *items) add(list []json.RawMessage) {
	for _, raw := range list {
		if o, _, ok := rawjson.ReadObject(raw); ok && o.Text("type") != itemReference {
			if id := o.Text("id"); id != "" {
				s.byID[id] = raw
			}
		}
	}
}

// lacks reports whether one of the ids is unknown.
func (s *items) lacks(ids map[string]int) bool {
	for id := range ids {
		if s.byID[id] == nil {
			return true
		}
	}
	return false
}

// Reference is an item that a request refers to by its id.
type Reference struct {
	Sent json.RawMessage // as the client sent it
	Item json.RawMessage // as it is stored
}

// references returns the ids of the items that a request refers to, with the indices of the references.
func (a *Ask) references() map[string]int {
	if a.Format != chat.OpenAIResponses {
		return nil
	}
	ids := map[string]int{}
	for i, raw := range a.Messages {
		if !bytes.Contains(raw, []byte(itemReference)) {
			continue
		}
		if o, _, ok := rawjson.ReadObject(raw); ok && o.Text("type") == itemReference && o.Text("id") != "" {
			ids[o.Text("id")] = i
		}
	}
	return ids
}

// resolve replaces the references in a request by the items that its session stores. Unknown ones stay.
func (svc *Service) resolve(ctx context.Context, c ident.Caller, x *Exchange, places []place) error {
	ids := x.ask.references()
	if len(ids) == 0 {
		return nil
	}
	open := svc.openTurns(c, x).open
	known, unlock := svc.items.Locked(svc.loopsKey(c, x))
	defer unlock()
	s := known.Value
	for _, l := range open {
		s.add(l.said.raw)
	}
	for i := range places {
		if s.lacks(ids) {
			if err := svc.readItems(ctx, c.Tenant, s, places[i].head); err != nil {
				return err
			}
		}
	}
	svc.items.Keep(known, s, s.weigh())
	x.ask.Messages = slices.Clone(x.ask.Messages)
	x.References = map[string]Reference{}
	for id, i := range ids {
		if item := s.byID[id]; item != nil {
			x.References[id] = Reference{Sent: x.ask.Messages[i], Item: item}
			x.ask.Messages[i] = item
		} else {
			x.unresolved = true
		}
	}
	return nil
}

// readItems reads the items of a session that are new since the last call, and those of its open turns in the store.
func (svc *Service) readItems(ctx context.Context, tenant string, s *items, h *session.Head) error {
	if h == nil {
		return nil
	}
	for at := s.read[h.Incarnation] + 1; at <= h.Messages; at += transcript.BodiesAtOnce {
		to := min(at+transcript.BodiesAtOnce-1, h.Messages)
		bodies, err := svc.sessions.ReadBodies(ctx, tenant, h.Incarnation, at, to)
		if err != nil {
			return err
		}
		for _, body := range bodies {
			// A body that is absent or damaged has no items.
			if _, m, err := transcript.ParseBody(body); err == nil && m.Format == chat.OpenAIResponses {
				s.add(transcript.Elements(m.Format, m.Raw))
			}
		}
	}
	s.read[h.Incarnation] = h.Messages
	for part, err := range records.Each[OpenTurn](ctx, svc.db, tenant, records.OpenTurn.Under(h.Incarnation)) {
		if err != nil && !errors.Is(err, records.ErrDamaged) {
			return err
		}
		if err == nil {
			s.add(part.Value.Messages)
		}
	}
	return nil
}
