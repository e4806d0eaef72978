package history

import (
	"bytes"
	"encoding/json"
	"hash/maphash"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// elements are the elements of a request, with what the next request needs in order not to read them again. They are
// immutable.
type elements []element

// element is an element of a request that consists of exactly one message. It is identified by its bytes.
type element struct {
	bytes         fingerprint // zero if it must be read again
	said          align.Hash
	role          plan.Role
	calls, spoken bool
}

// fingerprint identifies the bytes of an element within this process. All elements of all requests are fingerprinted,
// and SHA-256 would dominate the cost. The seeds are secret, so nobody can produce two elements with the same
// fingerprint.
type fingerprint [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func fingerprintOf(raw []byte) fingerprint {
	return fingerprint{maphash.Bytes(seeds[0], raw), maphash.Bytes(seeds[1], raw)}
}

// elementSize is the memory used by an element, in bytes.
const elementSize = 40

func (e elements) weigh() int { return len(e) * elementSize }

// find returns the element with these bytes: the one at the same index, or any other. It looks others up in all, which
// it builds when indices first differ. While the indices match, whatever follows the known elements is new.
func (e elements) find(i int, bytes fingerprint, all map[fingerprint]int) (*element, map[fingerprint]int) {
	if all == nil {
		if i >= len(e) {
			return nil, nil
		}
		if e[i].bytes == bytes {
			return &e[i], nil
		}
		all = make(map[fingerprint]int, len(e))
		for at := range e {
			all[e[at].bytes] = at
		}
	}
	if at, ok := all[bytes]; ok {
		return &e[at], all
	}
	return nil, all
}

// listen is like the function listen, for messages of a request that usually extends the agent's previous request. It
// does not read again what the previous request contained. In OpenAI's Responses, items depend on their neighbours, so
// it reads all of them.
func (svc *Service) listen(tenant, projectID string, ask *Ask) (saying, error) {
	if ask.Format == chat.OpenAIResponses || ask.Session == "" || len(ask.Messages) > transcript.MaxPosted {
		return listen(ask.Format, ask.Messages)
	}
	name := ident.Join(projectID, ask.Session, ask.Agent, ask.Format.String())
	c, unlock := svc.requests.Locked(svc.key(tenant, name))
	before := c.Value
	unlock()
	now := make(elements, len(ask.Messages))
	var fresh []json.RawMessage
	var at []int
	var all map[fingerprint]int
	for i, raw := range ask.Messages {
		now[i].bytes = fingerprintOf(raw)
		var known *element
		if known, all = before.find(i, now[i].bytes, all); known != nil {
			now[i] = *known
		} else {
			fresh, at = append(fresh, raw), append(at, i)
		}
	}
	read, err := listen(ask.Format, fresh)
	if err != nil {
		return listen(ask.Format, ask.Messages) // which names the elements by index
	}
	s := saying{format: ask.Format, raw: ask.Messages, read: make([]*transcript.Element, len(now)),
		parsed: make([]message, 0, len(now)), hashes: make([]align.Hash, 0, len(now))}
	next, nth := 0, 0 // of read, and of fresh
	for i, raw := range ask.Messages {
		e := &now[i]
		if nth == len(at) || at[nth] != i {
			s.parsed = append(s.parsed, message{Role: e.role, Index: i, Raw: bytes.TrimSpace(raw), calls: e.calls, spoken: e.spoken})
			s.hashes = append(s.hashes, e.said)
			continue
		}
		s.read[i] = read.read[nth]
		first := next
		for ; next < len(read.parsed) && read.parsed[next].Index == nth; next++ {
			m := read.parsed[next]
			m.Index = i
			s.parsed, s.hashes = append(s.parsed, m), append(s.hashes, read.hashes[next])
		}
		nth++
		if next != first+1 || !read.parsed[first].whole(raw) {
			now[i].bytes = fingerprint{}
			continue
		}
		m := &read.parsed[first]
		now[i] = element{now[i].bytes, read.hashes[first], m.Role, m.calls, m.spoken}
	}
	c, unlock = svc.requests.Locked(c.Key)
	defer unlock()
	svc.requests.Keep(c, now, now.weigh())
	return s, nil
}

// whole reports whether the message is everything that an element says.
func (m *message) whole(raw []byte) bool {
	return m.Decision == "" && !m.Hidden && bytes.Equal(m.Raw, bytes.TrimSpace(raw))
}
