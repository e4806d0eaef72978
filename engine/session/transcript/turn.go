package transcript

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Turn is what one run of an agent added, before it is placed in a session.
type Turn struct {
	Agent, Delegation string // defaults for messages that do not name their own; may be empty
	Messages          []chat.Parsed
	// Continues is the turn that the messages are added to, which must be the newest living one; 0 means a new turn.
	Continues uint32
	// Superseded means that a file marks the turn as taken back by a rewind: its results may answer calls that other
	// results answer, too.
	Superseded bool
	// Removed are the messages that a file marks as removed by a client, by index in Messages; nil if there are none.
	Removed map[int]bool
	// Reminders are bound to messages, by index in Messages.
	Reminders map[int]reminder.Bound
	sources   map[int][]string // ids in the file of another program, by index in Messages
	headers   []Header         // the parts that depend only on the messages, as far as Measure came
	known     []*known         // by message, if they come from parsed elements; nil otherwise
	// said holds hashes of the original messages, by index, for messages that are stored in other words.
	said map[int]align.Hash
	// blobs are the long strings that were stored before the turn; nil if there are none.
	blobs *blobs
}

// Bytes returns the size of the turn's messages, without their metadata.
func (t *Turn) Bytes() (n int64) {
	for i := range t.Messages {
		n += int64(len(t.Messages[i].Raw))
	}
	return n
}

// ParseFormat parses the name of a format. The empty name means OpenAI's chat format. Flat text is allowed only for
// output. It returns invalid_value.
func ParseFormat(name string, output bool) (chat.Format, error) {
	if name == "" {
		return chat.OpenAIChat, nil
	}
	f, ok := chat.ParseFormat(name)
	if !ok || f == chat.Text && !output {
		return 0, fault.InvalidField("format", "invalid_value", "must be %s, %s or %s", chat.OpenAIChat,
			chat.AnthropicMessages, chat.OpenAIResponses)
	}
	return f, nil
}

// MaxPosted is the maximum number of messages or items in one request. It is larger than what a turn may store, because
// system messages are not stored and several items of OpenAI's Responses API can form one message. It is checked before
// the messages are parsed, because each of them may produce an error.
const MaxPosted = 16 << 10

// ParseMessages parses posted messages and drops those that are not stored. It returns invalid_messages, with all
// faulty ones by index, and turn_too_large.
func ParseMessages(f chat.Format, in []json.RawMessage) ([]chat.Parsed, []chat.Skipped, error) {
	if len(in) > MaxPosted {
		return nil, nil, fault.Errorf(fault.TooLarge, "turn_too_large",
			"at most %d messages or items may be posted at once, these are %d", MaxPosted, len(in))
	}
	parsed, skipped, bad := chat.ParsePosted(f, in)
	// Package chat also reads stored messages, and older ones may have such names, so they are refused here.
	for i := range parsed {
		m := &parsed[i]
		for _, name := range [...]string{m.Agent, m.Delegation, m.From, m.To} {
			if ident.PathSegment(name) {
				bad = append(bad, chat.FieldError{Index: m.Index, Code: chat.CodeInvalidID,
					Detail: "the name of an agent or a delegation " + ident.IDRule})
				break
			}
		}
	}
	return parsed, skipped, Refusal(bad)
}

// Refusal returns invalid_messages with a list of faults, or nil if there are none.
func Refusal(bad []chat.FieldError) error {
	if len(bad) == 0 {
		return nil
	}
	refusal := &fault.Error{Kind: fault.Invalid, Code: "invalid_messages", Detail: bad[0].Error()}
	if len(bad) > 1 {
		refusal.Detail += fmt.Sprintf(" (and %d more)", len(bad)-1)
	}
	for i := range bad {
		refusal.Fields = append(refusal.Fields,
			fault.FieldError{Index: &bad[i].Index, Code: bad[i].Code, Detail: bad[i].Detail})
	}
	return refusal
}

// WriteTurn collects the records of a turn that follows an extent, which must be the whole session, or of a part that
// is added to a turn. It updates open. It returns the headers of the turn's messages, and the session's lineage after
// the turn. It returns invalid_messages if a result answers no call, and turn_too_large.
func (svc *Service) WriteTurn(tx *records.Tx, t *Turn, behind Extent, before Past, open *OpenCalls) (
	[]Header, Lineage, error) {
	headers, err := svc.NumberTurn(tx.Ctx, t, behind, open, tx.Now)
	if err != nil {
		return nil, 0, err
	}
	after := sha256.New()
	_, _ = after.Write(before.Lineage.append(nil))
	for i := range headers {
		h := &headers[i]
		body, err := t.body(tx, behind.Incarnation, h, i)
		if err != nil {
			return nil, 0, err
		}
		_, _ = after.Write(body)
		tx.Put(records.Body.Key(behind.Incarnation, h.Seq), body)
	}
	packed, err := packTurn(headers, before)
	if err != nil {
		return nil, 0, err
	}
	tx.Put(records.Headers.Key(behind.Incarnation, behind.Messages+1), packed)
	return headers, Lineage(binary.LittleEndian.Uint64(after.Sum(nil))), nil
}

// Lineage is a rolling hash of a session's turns, which identifies a history. Two states of a session with the same
// number of turns have different lineages if the store was restored to an earlier state in between and other turns were
// added. It is 0 before the first turn.
type Lineage uint64

// Branch returns the lineage of a history that diverges from another one: after a rewind, or in a copy.
func (l Lineage) Branch(by ...any) Lineage {
	sum := sha256.Sum256(fmt.Append(l.append(nil), by...))
	return Lineage(binary.LittleEndian.Uint64(sum[:]))
}

// Past is the state of a session before a turn: its lineage, and the tokens of its messages in each of
// project.Encodings.
type Past struct {
	Lineage Lineage
	Tokens  [2]uint64
}

const pastSize = 3 * 8

func (p Past) append(dst []byte) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(p.Lineage.append(dst), p.Tokens[0]), p.Tokens[1])
}

func (l Lineage) append(dst []byte) []byte { return binary.LittleEndian.AppendUint64(dst, uint64(l)) }

// NumberTurn makes the headers of a turn that follows an extent: it numbers the messages, matches results with open
// calls, and counts tokens. It updates open. It returns invalid_messages if a result answers no call.
func (svc *Service) NumberTurn(ctx context.Context, t *Turn, behind Extent, open *OpenCalls, now time.Time) (
	[]Header, error) {
	if err := svc.Measure(ctx, t); err != nil {
		return nil, err
	}
	headers := slices.Clone(t.headers) // a retry starts from what was measured
	var (
		bad    []chat.FieldError
		packed []byte
		turn   = behind.Turns + 1
	)
	if t.Continues > 0 {
		turn = t.Continues
	}
	for i := range t.Messages {
		m := &t.Messages[i].Message
		if m.Agent == "" {
			m.Agent = t.Agent
		}
		if m.Delegation == "" {
			m.Delegation = t.Delegation
		}
		h := &headers[i]
		h.Turn, h.Agent, h.Delegation, h.Made = turn, m.Agent, m.Delegation, m.Made
		svc.countQuestion(h)
		h.Seq = behind.Messages + uint64(i) + 1
		h.Call = h.Seq
		if b, ok := t.Reminders[i]; ok {
			b.Before = cmp.Or(b.Before, h.Seq)
			h.Reminder = &b
		}
		h.Sources = t.sources[i]
		h.Created = now.UnixMilli()
		if !m.CreatedAt.IsZero() {
			h.Created = m.CreatedAt.UnixMilli()
		}
		if problem := open.Follow(m, h, t.Superseded); problem != nil {
			problem.Index = t.Messages[i].Index
			bad = append(bad, *problem)
		}
		packed = appendHeaders(packed[:0], h.withoutLiterals())
		h.BodyBytes = uint32(len(packed) + 1 + len(m.Raw))
	}
	return headers, Refusal(bad)
}

// Measure computes, once, the parts of the headers that depend only on the turn's messages. Counting tokens takes most
// of the time of a turn, so this is best done before anything is locked.
func (svc *Service) Measure(ctx context.Context, t *Turn) error {
	if t.headers == nil {
		t.headers = make([]Header, 0, len(t.Messages))
	}
	for len(t.headers) < len(t.Messages) {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := svc.measured(ctx, t, len(t.headers))
		if err != nil {
			return err
		}
		if said, ok := t.said[len(t.headers)]; ok {
			h.Said = said
		}
		t.headers = append(t.headers, h)
	}
	return nil
}

// measured returns the parts of the header of a turn's message that depend only on the message.
func (svc *Service) measured(ctx context.Context, t *Turn, at int) (Header, error) {
	m := &t.Messages[at].Message
	if t.known == nil {
		var said align.Hash
		if !m.Hidden {
			said = align.Of(m)
		}
		return svc.header(ctx, m, said)
	}
	k := t.known[at]
	if h := k.header.Load(); h != nil {
		return *h, nil
	}
	h, err := svc.header(ctx, m, k.said)
	if err == nil {
		counted := h
		k.header.Store(&counted)
	}
	return h, err
}

// header returns the parts of a message's header that depend only on the message. said is its hash as clients send it
// again; zero if clients do not have it.
func (svc *Service) header(ctx context.Context, m *chat.Message, said align.Hash) (Header, error) {
	h := Header{Role: m.Role, Kind: m.Kind, Compacts: m.Compacts, TextBytes: uint32(len(m.Text)),
		Calls: uint16(len(m.Calls)), Tags: m.Tags, Said: said, Literals: m.Literals()}
	if m.IsError {
		h.Flags |= plan.FlagErrorResult
	}
	h.Flags |= m.Parts.Flags()
	if len(m.Calls) == 1 {
		h.Tool = m.Calls[0].Name
	}
	return h, svc.count(ctx, &h, m)
}
