package hostapi

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// arenaSize is one of the two sizes of an instance: a small instance is restored faster, a large one has room for the
// longest windows.
type arenaSize uint8

const (
	sizeSmall arenaSize = iota
	sizeLarge
	sizeCount
)

// request and plan return the sizes passed to mneme_arena, in bytes.
func (s arenaSize) request() uint32 { return [sizeCount]uint32{64 << 10, 512 << 10}[s] }
func (s arenaSize) plan() uint32    { return [sizeCount]uint32{32 << 10, 256 << 10}[s] }

// layout has the positions of the parts of one encoded request.
type layout struct {
	size    arenaSize
	tags    bool // the tag list is written
	extra   int  // 0 in assemble
	config  int
	strings int
	tagList int
	bytes   int // of the strings, up to the end
	end     int
	kept    []bool // if tags are left out: the strings that are written anyway
}

// layoutOf measures a request and selects the smallest arena that holds it, and the large one for hooks whose plans are
// long. If even the large one does not, tags are
// left out, because they are the only part whose size clients choose freely; records say so (flag 64).
func layoutOf(r *plan.Request) (layout, error) {
	if !r.Hook.Assembles() && len(r.Extra) != len(r.Records) {
		return layout{}, fmt.Errorf("the request has %d records and %d extra entries", len(r.Records), len(r.Extra))
	}
	l := place(r, true, stringBytes(r.Strings, nil), nil)
	if l.end > int(sizeLarge.request()) {
		kept := namedBesidesTags(r)
		l = place(r, false, stringBytes(r.Strings, kept), kept)
	}
	switch {
	case l.end <= int(sizeSmall.request()) && !longPlans(r.Hook):
		l.size = sizeSmall
	case l.end <= int(sizeLarge.request()):
		l.size = sizeLarge
	default:
		return l, fmt.Errorf("the request takes %d bytes without tags, the largest arena holds %d",
			l.end, sizeLarge.request())
	}
	return l, nil
}

func place(r *plan.Request, tags bool, bytes int, kept []bool) layout {
	l := layout{tags: tags, kept: kept}
	l.config = preambleSize + recordSize*len(r.Records)
	if !r.Hook.Assembles() {
		l.extra = l.config
		l.config += extraSize * len(r.Extra)
	}
	l.strings = l.config + configSize*len(r.Config)
	l.tagList = l.strings + stringSize*len(r.Strings)
	l.bytes = l.tagList
	if tags {
		l.bytes += tagSize * len(r.Tags)
	}
	l.end = l.bytes + bytes
	for i := range r.Config {
		l.end += len(r.Config[i].Key)
		if s, ok := r.Config[i].Value.(string); ok {
			l.end += len(s)
		}
	}
	return l
}

func stringBytes(strings []string, kept []bool) int {
	n := 0
	for id, s := range strings {
		if kept == nil || kept[id] {
			n += len(s)
		}
	}
	return n
}

// longPlans reports whether a hook writes many memories, so that it runs in the large arenas and its plans may have
// long texts.
func longPlans(h plan.Hook) bool { return h == plan.HookRemember || h == plan.HookRetain }

// namedBesidesTags marks the strings that something else than a tag refers to. Without tags, only these are
// written.
func namedBesidesTags(r *plan.Request) []bool {
	kept := make([]bool, len(r.Strings))
	mark := func(id uint32) {
		if int(id) < len(kept) {
			kept[id] = true
		}
	}
	mark(r.ViewerAgent)
	for i := range r.Records {
		mark(r.Records[i].Agent)
		mark(r.Records[i].Tool)
	}
	for i := range r.Extra {
		mark(r.Extra[i].Key)
		mark(r.Extra[i].Namespace)
		mark(r.Extra[i].Session)
	}
	return kept
}

// encode writes the request into dst, the request arena in guest memory, without allocating. It writes every byte of
// dst[:l.end].
func encode(dst []byte, r *plan.Request, l layout) error {
	dst = dst[:l.end]
	encodePreamble((*[preambleSize]byte)(dst), r, l)
	at := preambleSize
	for i := range r.Records {
		encodeRecord((*[recordSize]byte)(dst[at:]), uint32(i), &r.Records[i], l.tags)
		at += recordSize
	}
	if l.extra > 0 {
		for i := range r.Extra {
			encodeExtra((*[extraSize]byte)(dst[l.extra+extraSize*i:]), &r.Extra[i])
		}
	}
	free := l.bytes
	for i := range r.Config {
		var err error
		if free, err = encodeConfig(dst, l.config+configSize*i, free, &r.Config[i]); err != nil {
			return err
		}
	}
	for id, s := range r.Strings {
		if l.kept != nil && !l.kept[id] {
			s = ""
		}
		pair := (*[stringSize]byte)(dst[l.strings+stringSize*id:])
		binary.LittleEndian.PutUint32(pair[strOffset:], uint32(free))
		binary.LittleEndian.PutUint32(pair[strLength:], uint32(len(s)))
		free += copy(dst[free:], s)
	}
	if l.tags {
		for i, id := range r.Tags {
			binary.LittleEndian.PutUint32(dst[l.tagList+tagSize*i:], id)
		}
	}
	return nil
}

func encodePreamble(b *[preambleSize]byte, r *plan.Request, l layout) {
	le := binary.LittleEndian
	var flags uint32
	if r.OlderExist {
		flags |= flagOlderExist
	}
	le.PutUint32(b[preMagic:], requestMagic)
	le.PutUint32(b[preABI:], abiVersion)
	le.PutUint32(b[prePreambleSize:], preambleSize)
	le.PutUint32(b[preRecordSize:], recordSize)
	le.PutUint32(b[preRecordCount:], uint32(len(r.Records)))
	le.PutUint32(b[preRecordsOffset:], preambleSize)
	le.PutUint32(b[preConfigOffset:], uint32(l.config))
	le.PutUint32(b[preConfigCount:], uint32(len(r.Config)))
	le.PutUint32(b[preStringsOffset:], uint32(l.strings))
	le.PutUint32(b[preStringsCount:], uint32(len(r.Strings)))
	le.PutUint32(b[preBudgetMessages:], r.BudgetMessages)
	le.PutUint32(b[preBudgetTokens:], r.BudgetTokens)
	le.PutUint32(b[preViewerDelegation:], r.ViewerDelegation)
	le.PutUint32(b[preViewerAgent:], r.ViewerAgent)
	le.PutUint64(b[preNow:], uint64(r.Now))
	le.PutUint64(b[preSeed:], r.Seed)
	le.PutUint32(b[preNewestTurn:], r.NewestTurn)
	le.PutUint32(b[preFlags:], flags)
	le.PutUint64(b[preSummaryCovers:], r.SummaryCovers)
	le.PutUint32(b[preSummaryTokens:], r.SummaryTokens)
	le.PutUint32(b[preReserved:], 0)
	le.PutUint64(b[preOlderTokens:], r.OlderTokens)
	le.PutUint32(b[preMemoryBudget:], r.MemoryBudget)
	le.PutUint32(b[preReserved2:], 0)
	hook := r.Hook
	if hook.Assembles() {
		hook = plan.HookAssemble
	}
	le.PutUint32(b[preHook:], uint32(hook))
	le.PutUint32(b[preOrigin:], uint32(r.Origin))
	le.PutUint32(b[preExtraOffset:], uint32(l.extra))
	le.PutUint32(b[preExtraSize:], extraSize)
}

func encodeExtra(b *[extraSize]byte, e *plan.Extra) {
	le := binary.LittleEndian
	le.PutUint32(b[extKey:], e.Key)
	le.PutUint32(b[extNamespace:], e.Namespace)
	b[extCategory] = e.Category
	b[extTrust] = byte(e.Trust)
	le.PutUint16(b[extFlags:], uint16(e.Flags))
	le.PutUint32(b[extScore:], e.Score)
	le.PutUint64(b[extOccurred:], uint64(e.Occurred))
	le.PutUint64(b[extExpires:], uint64(e.Expires))
	le.PutUint64(b[extLastRecalled:], uint64(e.LastRecalled))
	le.PutUint32(b[extRecalls:], e.Recalls)
	le.PutUint32(b[extVersion:], e.Version)
	le.PutUint32(b[extImportance:], math.Float32bits(e.Importance))
	le.PutUint32(b[extSession:], e.Session)
	le.PutUint32(b[extGroup:], e.Group)
	le.PutUint32(b[extReserved:], 0)
}

func encodeRecord(b *[recordSize]byte, index uint32, r *plan.Record, tags bool) {
	le := binary.LittleEndian
	flags, tagsAt, tagCount := r.Flags, r.TagsAt, r.TagCount
	if !tags && tagCount > 0 {
		flags, tagsAt, tagCount = flags|plan.FlagTagsLeftOut, 0, 0
	}
	le.PutUint32(b[recIndex:], index)
	le.PutUint32(b[recTurn:], r.Turn)
	le.PutUint64(b[recSeq:], r.Seq)
	b[recRole] = byte(r.Role)
	b[recKind] = byte(r.Kind)
	le.PutUint16(b[recFlags:], uint16(flags))
	le.PutUint32(b[recTokens:], r.Tokens)
	le.PutUint32(b[recCompressedTokens:], r.CompressedTokens)
	le.PutUint32(b[recTextBytes:], r.TextBytes)
	le.PutUint32(b[recAtom:], r.Atom)
	le.PutUint32(b[recDelegation:], r.Delegation)
	le.PutUint32(b[recAgent:], r.Agent)
	le.PutUint32(b[recTool:], r.Tool)
	le.PutUint32(b[recTags:], tagsAt)
	le.PutUint32(b[recTagCount:], tagCount)
	le.PutUint64(b[recCreated:], uint64(r.Created))
	le.PutUint32(b[recPlace:], r.Place)
	le.PutUint32(b[recReserved:], 0)
}

// encodeConfig writes one entry at offset at and its strings at free, and returns the offset for the next strings.
func encodeConfig(dst []byte, at, free int, e *plan.ConfigEntry) (int, error) {
	le := binary.LittleEndian
	b := (*[configSize]byte)(dst[at:])
	le.PutUint32(b[cfgKeyOffset:], uint32(free))
	le.PutUint32(b[cfgKeyLength:], uint32(len(e.Key)))
	free += copy(dst[free:], e.Key)
	var typ, length uint32
	var value uint64
	switch v := e.Value.(type) {
	case int64:
		typ, value = typeInteger, uint64(v)
	case float64:
		typ, value = typeFloat, math.Float64bits(v)
	case bool:
		typ = typeBoolean
		if v {
			value = 1
		}
	case string:
		typ, length, value = typeString, uint32(len(v)), uint64(free)
		free += copy(dst[free:], v)
	default:
		return free, fmt.Errorf("config %q has the Go type %T, which the ABI does not know", e.Key, v)
	}
	le.PutUint32(b[cfgType:], typ)
	le.PutUint32(b[cfgStringLength:], length)
	le.PutUint64(b[cfgValue:], value)
	return free, nil
}
