package mnemetest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"unsafe"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

const (
	preambleSize = 128
	extraSize    = 64
	recordSize   = 72
	settingSize  = 24
)

// Encode returns the request's bytes, aligned to 8. The same table always gives the same bytes. It panics on a config
// value whose type Config does not list.
func (t *Table) Encode() []byte {
	pool := stringTable{ids: map[string]uint32{"": 0}, list: []string{""}}
	var tags []uint32
	records := make([]byte, 0, len(t.Records)*recordSize)
	for i := range t.Records {
		records = t.Records[i].append(records, uint32(i), &pool, uint32(len(tags)))
		for _, tag := range t.Records[i].Tags {
			tags = append(tags, pool.id(tag))
		}
	}
	viewer := pool.id(t.ViewerAgent)
	hook, extraAt := mneme.Assemble, 0
	var extra []byte
	if !t.assembles() {
		hook, extraAt = t.Hook, preambleSize+len(records)
		for i := range t.Records {
			extra = t.Records[i].Memory.append(extra, &pool)
		}
	}

	configAt := preambleSize + len(records) + len(extra)
	stringsAt := configAt + len(t.Config)*settingSize
	textAt := stringsAt + len(pool.list)*8 + len(tags)*4
	var text []byte
	place := func(s string) (at, length uint32) {
		at = uint32(textAt + len(text))
		text = append(text, s...)
		return at, uint32(len(s))
	}
	var config, pairs []byte
	for _, key := range slices.Sorted(maps.Keys(t.Config)) {
		config = appendSetting(config, key, t.Config[key], place)
	}
	for _, s := range pool.list {
		at, length := place(s)
		pairs = appendUint32(pairs, at, length)
	}
	pairs = appendUint32(pairs, tags...)

	out := Buffer(textAt + len(text))[:0]
	out = append(out, "MNM1"...)
	out = appendUint32(out, mneme.Version, preambleSize, recordSize, uint32(len(t.Records)), preambleSize,
		uint32(configAt), uint32(len(t.Config)), uint32(stringsAt), uint32(len(pool.list)),
		t.BudgetMessages, t.BudgetTokens, t.ViewerDelegation, viewer)
	out = appendUint64(out, uint64(t.Now), t.Seed)
	var flags uint32
	if t.OlderExist {
		flags = 1
	}
	out = appendUint32(out, t.newestTurn(), flags)
	out = appendUint64(out, t.SummaryCovers)
	out = appendUint32(out, t.SummaryTokens, 0)
	out = appendUint64(out, t.OlderTokens)
	out = appendUint32(out, t.MemoryBudget, 0, uint32(hook), uint32(t.Origin), uint32(extraAt), extraSize)
	for _, part := range [][]byte{records, extra, config, pairs, text} {
		out = append(out, part...)
	}
	return out
}

func (r *Record) append(to []byte, index uint32, pool *stringTable, tagsAt uint32) []byte {
	to = appendUint32(to, index, r.Turn)
	to = appendUint64(to, r.Seq)
	to = append(to, byte(r.Role), byte(r.Kind))
	to = binary.LittleEndian.AppendUint16(to, uint16(r.Flags))
	to = appendUint32(to, r.Tokens, r.CompressedTokens, uint32(len(r.Text)), r.Atom, r.Delegation,
		pool.id(r.Agent), pool.id(r.Tool), tagsAt, uint32(len(r.Tags)))
	to = appendUint64(to, uint64(r.Created))
	return appendUint32(to, r.place(), 0)
}

func (m *Memory) append(to []byte, pool *stringTable) []byte {
	to = appendUint32(to, pool.id(m.Key), pool.id(m.Namespace))
	to = append(to, byte(m.Category), byte(m.Trust))
	to = binary.LittleEndian.AppendUint16(to, uint16(m.Flags))
	to = appendUint32(to, m.Score)
	to = appendUint64(to, uint64(m.Occurred), uint64(m.Expires), uint64(m.LastRecalled))
	to = appendUint32(to, m.Recalls, m.Version, math.Float32bits(m.Importance))
	return appendUint32(to, pool.id(m.Session), m.Group, 0)
}

// appendSetting appends one config entry. place stores its strings.
func appendSetting(to []byte, key string, value any, place func(string) (at, length uint32)) []byte {
	keyAt, keyLen := place(key) // a host puts it before the value
	var kind, length uint32
	var bits uint64
	switch v := value.(type) {
	case int:
		kind, bits = 1, uint64(v)
	case int64:
		kind, bits = 1, uint64(v)
	case float64:
		kind, bits = 2, math.Float64bits(v)
	case bool:
		kind = 3
		if v {
			bits = 1
		}
	case string:
		var at uint32
		at, length = place(v)
		kind, bits = 4, uint64(at)
	default:
		panic(fmt.Sprintf("mnemetest: config value of type %T", value))
	}
	return appendUint64(appendUint32(to, keyAt, keyLen, kind, length), bits)
}

// Buffer returns a zeroed buffer with the alignment that a policy's request and plan need.
func Buffer(size int) []byte {
	words := make([]uint64, max(1, (size+7)/8))
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)[:size]
}

// stringTable is a string table that is being built.
type stringTable struct {
	ids  map[string]uint32
	list []string
}

func (p *stringTable) id(s string) uint32 {
	id, ok := p.ids[s]
	if !ok {
		id = uint32(len(p.list))
		p.ids[s], p.list = id, append(p.list, s)
	}
	return id
}

func appendUint32(to []byte, values ...uint32) []byte {
	for _, v := range values {
		to = binary.LittleEndian.AppendUint32(to, v)
	}
	return to
}

func appendUint64(to []byte, values ...uint64) []byte {
	for _, v := range values {
		to = binary.LittleEndian.AppendUint64(to, v)
	}
	return to
}
