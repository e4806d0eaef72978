package transcript

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/plan/literal"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Header holds what planning needs of a stored message. It is stored apart from the body. Tokens are counted once, when
// the message is written, in each of project.Encodings.
type Header struct {
	Seq        uint64 // number of the message in its session, from 1
	Call       uint64 // for a result, the Seq of the message that made the call; otherwise Seq
	Created    int64  // ms since 1970
	Turn       uint32
	Tokens     [2]uint32 // of the message in the format that it was posted in
	Content    [2]uint32 // of its shown text only
	Compressed [2]uint32 // as an earlier question; only for user messages
	TextBytes  uint32
	BodyBytes  uint32 // of the body record
	Calls      uint16 // number of tool calls that a call message makes
	CallIndex  uint16 // for a result, the index of the call it answers
	Flags      plan.Flags
	Role       plan.Role
	Kind       plan.Kind

	Compacts bool // an Anthropic compaction block, which replaces all messages before it

	// Made identifies the prompt that a model answered with the message; the zero Place if unknown.
	Made prefix.Place

	// Said is a hash of the message as clients send it again; zero if clients do not have it.
	Said align.Hash

	Agent, Delegation, Tool string
	Tags                    []string

	// Reminder is what windows show before a user's message; nil if nothing. It may be stored with a later message.
	Reminder *reminder.Bound

	// Sources are the ids that the message has in the file of another program; nil if it was not read from one.
	Sources []string

	Costs *Costs // nil if the message consists of one text, calls and names, and costs Tokens in every format

	// Literals are those of the message's text and of the arguments of its calls. They are unknown if the message was
	// stored without them, and are not part of the copy in the body.
	Literals literal.List
}

// AtomStart reports whether the message begins an atom. An atom is a call message with its results, or any other single
// message; windows show an atom whole or not at all.
func (h *Header) AtomStart() bool { return h.Call == h.Seq }

// Lost reports whether nothing is known about a message, because its header and its body are damaged.
func (h *Header) Lost() bool { return h.Role == 0 }

// blank returns a header that keeps only the place of a message of which nothing is stored.
func (h *Header) blank() Header { return Header{Seq: h.Seq, Call: h.Seq, Turn: h.Turn} }

// flagCosts marks an encoded header that has Costs.
const flagCosts plan.Flags = 1 << 15

// flagReminder marks an encoded header that has a Reminder.
const flagReminder plan.Flags = 1 << 13

// flagMade marks an encoded header whose Made is known.
const flagMade plan.Flags = 1 << 14

// flagCompacts marks an encoded header whose message Compacts.
const flagCompacts plan.Flags = 1 << 12

// flagLiterals marks an encoded header that has Literals.
const flagLiterals plan.Flags = 1 << 11

// flagSources marks an encoded header that has Sources. The bit is that of messages that are being sent, and no stored
// message is.
const flagSources = plan.FlagPending

// MessageID returns the id of a message, which is made of its session's incarnation and its number.
func MessageID(sinc ident.Incarnation, seq uint64) string {
	return "msg_" + ident.Alphabet.EncodeToString(sinc[:5]) + "_" + strconv.FormatUint(seq, 10)
}

const (
	headerVersion = 3
	headerSize    = 3*8 + 4 + 3*8 + 2*4 + 2*2 + 2 + 2 + 4*2 + 2 + len(align.Hash{})
)

var errBadHeaders = errors.New("a packed header record does not parse")

// fewStrings is how many names and tags are searched linearly before a map is used.
const fewStrings = 8

// stringTable numbers the names and tags of encoded headers from 1; 0 is the empty string.
type stringTable struct {
	list []string          // by number, from 1
	ids  map[string]uint16 // nil while there are few strings
}

// id returns the number of a string, and adds the string if it is new.
func (t *stringTable) id(s string) uint16 {
	if s == "" {
		return 0
	}
	if t.ids == nil {
		if n := slices.Index(t.list, s); n >= 0 {
			return uint16(n + 1)
		}
	} else if n, ok := t.ids[s]; ok {
		return n
	}
	t.list = append(t.list, s)
	n := uint16(len(t.list))
	switch {
	case t.ids != nil:
		t.ids[s] = n
	case len(t.list) == fewStrings:
		t.ids = make(map[string]uint16, 2*fewStrings)
		for i, s := range t.list {
			t.ids[s] = uint16(i + 1)
		}
	}
	return n
}

// appendHeaders encodes the headers of one turn: version, counts, a string table, the numbers of all tags, fixed-size
// entries, and then the parts that only some messages have.
func appendHeaders(dst []byte, hs []Header) []byte {
	var few [fewStrings]string
	table, tags := stringTable{list: few[:0]}, 0
	for i := range hs {
		h := &hs[i]
		table.id(h.Agent)
		table.id(h.Delegation)
		table.id(h.Tool)
		for _, tag := range h.Tags {
			table.id(tag)
		}
		tags += len(h.Tags)
	}
	le := binary.LittleEndian
	dst = append(dst, headerVersion)
	dst = le.AppendUint16(dst, uint16(len(hs)))
	dst = le.AppendUint16(dst, uint16(len(table.list)))
	dst = le.AppendUint16(dst, uint16(tags))
	for _, s := range table.list {
		dst = append(le.AppendUint16(dst, uint16(len(s))), s...)
	}
	for i := range hs {
		for _, tag := range hs[i].Tags {
			dst = le.AppendUint16(dst, table.id(tag))
		}
	}
	tags = 0
	for i := range hs {
		h := &hs[i]
		dst = le.AppendUint64(dst, h.Seq)
		dst = le.AppendUint64(dst, h.Call)
		dst = le.AppendUint64(dst, uint64(h.Created))
		dst = le.AppendUint32(dst, h.Turn)
		for _, pair := range [...][2]uint32{h.Tokens, h.Content, h.Compressed} {
			dst = le.AppendUint32(le.AppendUint32(dst, pair[0]), pair[1])
		}
		dst = le.AppendUint32(le.AppendUint32(dst, h.TextBytes), h.BodyBytes)
		dst = le.AppendUint16(le.AppendUint16(dst, h.Calls), h.CallIndex)
		dst = le.AppendUint16(dst, uint16(h.packedFlags()))
		dst = append(dst, byte(h.Role), byte(h.Kind))
		for _, name := range [...]string{h.Agent, h.Delegation, h.Tool} {
			dst = le.AppendUint16(dst, table.id(name))
		}
		dst = le.AppendUint16(le.AppendUint16(dst, uint16(tags)), uint16(len(h.Tags)))
		dst = append(dst, h.Said[:]...)
		tags += len(h.Tags)
	}
	for i := range hs {
		h := &hs[i]
		if h.Made.Known() {
			dst = h.Made.Append(dst)
		}
		if h.Reminder != nil {
			dst = h.Reminder.Append(dst)
		}
		if len(h.Sources) > 0 {
			dst = appendSources(dst, h.Sources)
		}
		if h.Costs != nil {
			dst = h.Costs.append(dst)
		}
		dst = append(dst, h.Literals...)
	}
	return dst
}

// withoutLiterals returns a header as the body's copy has it.
func (h *Header) withoutLiterals() []Header {
	bare := *h
	bare.Literals = ""
	return []Header{bare}
}

// packedFlags returns the flags, including those that say what follows the fixed-size entries.
func (h *Header) packedFlags() plan.Flags {
	flags := h.Flags
	if h.Compacts {
		flags |= flagCompacts
	}
	if h.Made.Known() {
		flags |= flagMade
	}
	if h.Reminder != nil {
		flags |= flagReminder
	}
	if len(h.Sources) > 0 {
		flags |= flagSources
	}
	if h.Costs != nil {
		flags |= flagCosts
	}
	if h.Literals.Known() {
		flags |= flagLiterals
	}
	return flags
}

// parseTurn decodes the header record of a turn: the headers, and the state of the session before the turn.
func parseTurn(b []byte) ([]Header, Past, error) {
	hs, rest, err := parseHeaders(b)
	if err != nil || len(hs) == 0 || len(rest) != pastSize {
		return nil, Past{}, errBadHeaders
	}
	var p Past
	for i, to := range [...]*uint64{(*uint64)(&p.Lineage), &p.Tokens[0], &p.Tokens[1]} {
		*to = binary.LittleEndian.Uint64(rest[8*i:])
	}
	return hs, p, nil
}

// parseHeaders decodes the output of appendHeaders and returns the remaining bytes.
func parseHeaders(b []byte) (hs []Header, rest []byte, err error) {
	le := binary.LittleEndian
	if len(b) < 7 || b[0] != headerVersion {
		return nil, nil, errBadHeaders
	}
	n, nstrings, ntags := int(le.Uint16(b[1:])), int(le.Uint16(b[3:])), int(le.Uint16(b[5:]))
	b = b[7:]
	strings := make([]string, 1, nstrings+1)
	for range nstrings {
		if len(b) < 2 || len(b) < 2+int(le.Uint16(b)) {
			return nil, nil, errBadHeaders
		}
		size := 2 + int(le.Uint16(b))
		strings = append(strings, string(b[2:size]))
		b = b[size:]
	}
	if len(b) < 2*ntags+n*headerSize {
		return nil, nil, errBadHeaders
	}
	tags, b := b[:2*ntags], b[2*ntags:]
	rest = b[n*headerSize:]
	hs = make([]Header, n)
	for i := range hs {
		h, f := &hs[i], b[i*headerSize:(i+1)*headerSize]
		h.Seq, h.Call, h.Created = le.Uint64(f), le.Uint64(f[8:]), int64(le.Uint64(f[16:]))
		h.Turn = le.Uint32(f[24:])
		for j, pair := range [...]*[2]uint32{&h.Tokens, &h.Content, &h.Compressed} {
			pair[0], pair[1] = le.Uint32(f[28+8*j:]), le.Uint32(f[32+8*j:])
		}
		f = f[52:]
		h.TextBytes, h.BodyBytes = le.Uint32(f), le.Uint32(f[4:])
		h.Calls, h.CallIndex = le.Uint16(f[8:]), le.Uint16(f[10:])
		h.Flags, h.Role, h.Kind = plan.Flags(le.Uint16(f[12:])), plan.Role(f[14]), plan.Kind(f[15])
		agent, delegation, tool := int(le.Uint16(f[16:])), int(le.Uint16(f[18:])), int(le.Uint16(f[20:]))
		at, count := int(le.Uint16(f[22:])), int(le.Uint16(f[24:]))
		h.Said = align.Hash(f[26:])
		if max(agent, delegation, tool) > nstrings || at+count > ntags {
			return nil, nil, errBadHeaders
		}
		h.Agent, h.Delegation, h.Tool = strings[agent], strings[delegation], strings[tool]
		for j := range count {
			tag := int(le.Uint16(tags[2*(at+j):]))
			if tag > nstrings {
				return nil, nil, errBadHeaders
			}
			h.Tags = append(h.Tags, strings[tag])
		}
		if h.Compacts = h.Flags&flagCompacts != 0; h.Compacts {
			h.Flags &^= flagCompacts
		}
		if h.Flags&flagMade != 0 {
			h.Flags &^= flagMade
			if len(rest) < prefix.Size {
				return nil, nil, errBadHeaders
			}
			h.Made, rest = prefix.Parse(rest), rest[prefix.Size:]
		}
		if h.Flags&flagReminder != 0 {
			h.Flags &^= flagReminder
			if h.Reminder, rest, err = reminder.ParseBound(rest); err != nil {
				return nil, nil, errBadHeaders
			}
		}
		if h.Flags&flagSources != 0 {
			h.Flags &^= flagSources
			if h.Sources, rest = parseSources(rest); h.Sources == nil {
				return nil, nil, errBadHeaders
			}
		}
		if h.Flags&flagCosts != 0 {
			h.Flags &^= flagCosts
			if h.Costs, rest = parseCosts(rest); h.Costs == nil {
				return nil, nil, errBadHeaders
			}
		}
		if h.Flags&flagLiterals != 0 {
			h.Flags &^= flagLiterals
			var ok bool
			if h.Literals, rest, ok = literal.Parse(rest); !ok {
				return nil, nil, errBadHeaders
			}
		}
	}
	return hs, rest, nil
}

var errBadBody = errors.New("a message body does not parse")

// appendBody encodes a body record: a copy of the message's header, its format in one byte, and its JSON as posted.
func appendBody(dst []byte, h *Header, m *chat.Message) []byte {
	dst = append(appendHeaders(dst, h.withoutLiterals()), byte(m.Format))
	return append(dst, m.Raw...)
}

// ParseBody decodes a body record into the header and the message in its format-independent form. The message aliases
// b.
func ParseBody(b []byte) (*Header, *chat.Message, error) {
	hs, rest, err := parseHeaders(b)
	if err != nil || len(hs) != 1 || len(rest) < 1 {
		return nil, nil, errBadBody
	}
	h := &hs[0]
	if len(b) != int(h.BodyBytes) {
		return nil, nil, errBadBody
	}
	format, raw := chat.Format(rest[0]), json.RawMessage(rest[1:])
	parsed, _, bad := chat.Parse(format, Elements(format, raw))
	if len(bad) > 0 || len(parsed) != 1 {
		return nil, nil, errBadBody
	}
	m := &parsed[0].Message
	m.Raw = raw
	m.Agent, m.Delegation, m.Tags = h.Agent, h.Delegation, h.Tags
	m.CreatedAt, m.Made = records.TimeOf(h.Created), h.Made
	return h, m, nil
}

// Elements returns the posted elements in a message's JSON. For OpenAIResponses, that is a list of items.
func Elements(format chat.Format, raw json.RawMessage) []json.RawMessage {
	var items []json.RawMessage // a new slice: decoding into raw's memory would overwrite it
	if format == chat.OpenAIResponses && json.Unmarshal(raw, &items) == nil {
		return items
	}
	return []json.RawMessage{raw}
}
