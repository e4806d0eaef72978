package history

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// elements are what a request said: so much of each element of it as the next request needs not read again. Nothing
// changes one.
type elements []element

// element is an element of a request that is one message and nothing else, by its bytes.
type element struct {
	bytes         fingerprint // zero: it has to be read again
	said          align.Hash
	role          plan.Role
	calls, spoken bool
}

// fingerprint stands for the bytes of an element as it came, within this process. All elements of all requests are
// fingerprinted, and SHA-256 would take most of the time. The seeds are secret, so that nobody can make two elements with
// one fingerprint.
type fingerprint [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func fingerprintOf(raw []byte) fingerprint {
	return fingerprint{maphash.Bytes(seeds[0], raw), maphash.Bytes(seeds[1], raw)}
}

// elementSize is what an element takes of memory, in bytes.
const elementSize = 40

func (e elements) weigh() int { return len(e) * elementSize }

// find gives the element with these bytes: the one in the same place, else any, by all, which it makes where the places
// are others. While they are the same, what stands behind them is new.
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

// listen is the function listen for the messages of a request, which are those of the agent's request before and some
// more: what that one said is not read again. In OpenAI's Responses items depend on those around them, so that all of
// them are read.
func (svc *Service) listen(tenant, projectID string, ask *Ask) (saying, error) {
	if ask.Format == chat.OpenAIResponses || ask.Session == "" || len(ask.Messages) > transcript.MaxPosted {
		return listen(ask.Format, ask.Messages)
	}
	name := strings.Join([]string{projectID, ask.Session, ask.Agent, ask.Format.String()}, "/")
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
		return listen(ask.Format, ask.Messages) // which names the elements by their places
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

// whole tells whether the message is all that an element says.
func (m *message) whole(raw []byte) bool {
	return m.Decision == "" && !m.Hidden && bytes.Equal(m.Raw, bytes.TrimSpace(raw))
}
