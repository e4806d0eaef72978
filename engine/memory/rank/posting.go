package rank

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// Place is where a document is: the number of its namespace, its stream, which is a conversation, and its position
// there. Documents at adjacent positions of one stream are neighbours. Those of stream 0 have no neighbours.
type Place struct{ Namespace, Stream, Pos uint64 }

// StreamOf returns the stream of the memories of a session. Those without a session are in stream 0.
func StreamOf(session string) uint64 {
	if session == "" {
		return 0
	}
	sum := sha256.Sum256([]byte("session " + session))
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// SameStream reports whether two places are in the same stream of the same namespace.
func (p Place) SameStream(q Place) bool { return p.Stream == q.Stream && p.Namespace == q.Namespace }

// Compare orders places by namespace, then by stream, then by position.
func (p Place) Compare(q Place) int {
	if p.Namespace != q.Namespace {
		return cmp.Compare(p.Namespace, q.Namespace)
	}
	if p.Stream != q.Stream {
		return cmp.Compare(p.Stream, q.Stream)
	}
	return cmp.Compare(p.Pos, q.Pos)
}

// millisecondBits is the base-2 logarithm of the number of places of stream 0 in a millisecond.
const millisecondBits = 10

// Timed returns the first place of the millisecond of something without a stream.
func Timed(at time.Time) Place { return Place{Pos: uint64(at.UnixMilli()) << millisecondBits} }

// likelyDay returns the day that a place suggests, given the day of the previous posting.
func (p Place) likelyDay(before uint16) uint16 {
	if p.Stream == 0 {
		return uint16(p.Pos >> millisecondBits / (24 * 60 * 60 * 1000))
	}
	return before
}

// Posting says that a document contains a term, with the properties of the document that ranking and filtering need.
type Posting struct {
	Place
	Count uint32 // of the term in the document
	Len   uint32 // of the document, in terms
	Day   uint16 // days since 1970
	Attrs Attrs
}

// BlockSize is the largest number of postings in a block.
const BlockSize = 256

const blockVersion = 4

var errBadBlock = errors.New("a block of postings does not parse")

// Most postings have count 1, the attributes of the previous one, and the day that their place suggests. For such a
// usual posting a block stores only its place and the length of its document. For others the lowest bits of the count
// say what is omitted.
const (
	usual      = 1 // of the length
	usualBits  = 1
	sameAttrs  = 1 // of the count
	likelyDay  = 2
	commonBits = 2
)

// beforeBlock returns what the first posting of a block is encoded against: one just before the place in the block's
// key.
func beforeBlock(begin Place) Posting {
	begin.Pos--
	return Posting{Place: begin}
}

// AppendBlock encodes sorted postings, none of them before the place in the block's key: a version, their number, then
// each as the difference from the previous one.
func AppendBlock(dst []byte, begin Place, ps []Posting) []byte {
	dst = binary.AppendUvarint(append(dst, blockVersion), uint64(len(ps)))
	last := beforeBlock(begin)
	for _, p := range ps {
		dst = appendPlace(dst, last.Place, p.Place)
		day, common := p.likelyDay(last.Day), uint64(0)
		if p.Attrs == last.Attrs {
			common |= sameAttrs
		}
		if p.Day == day {
			common |= likelyDay
		}
		if p.Count == 1 && common == sameAttrs|likelyDay {
			dst = binary.AppendUvarint(dst, uint64(p.Len)<<usualBits|usual)
			last = p
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(p.Len)<<usualBits)
		dst = binary.AppendUvarint(dst, uint64(p.Count)<<commonBits|common)
		if p.Attrs != last.Attrs {
			dst = binary.AppendUvarint(dst, uint64(p.Attrs^last.Attrs))
		}
		if p.Day != day {
			dst = binary.AppendVarint(dst, int64(p.Day)-int64(day))
		}
		last = p
	}
	return dst
}

// A place in another stream than the previous one begins with 0, which is no difference of positions, and then says
// what is different.
const (
	otherStream    = 1
	otherNamespace = 2
)

// appendPlace encodes a place as the difference from the previous one.
func appendPlace(dst []byte, last, at Place) []byte {
	if at.SameStream(last) {
		return binary.AppendUvarint(dst, at.Pos-last.Pos) // never 0
	}
	change := byte(0)
	if at.Namespace != last.Namespace {
		change |= otherNamespace
	}
	if at.Stream != last.Stream {
		change |= otherStream
	}
	dst = append(dst, 0, change)
	if at.Namespace != last.Namespace {
		dst = binary.BigEndian.AppendUint64(dst, at.Namespace)
	}
	if at.Stream != last.Stream {
		dst = binary.BigEndian.AppendUint64(dst, at.Stream)
	}
	return binary.AppendUvarint(dst, at.Pos)
}

// placeAfter decodes the rest of a place in another stream than the previous one.
func (r *reader) placeAfter(last Place) (at Place) {
	change := r.byte()
	at = last
	if change&otherNamespace != 0 {
		at.Namespace = r.uint64()
	}
	if change&otherStream != 0 {
		at.Stream = r.uint64()
	}
	at.Pos = r.uvarint()
	r.bad = r.bad || change > otherNamespace|otherStream || at.SameStream(last) || at.Compare(last) <= 0
	return at
}

// BlockLen returns the number of postings in a block, or 0 if it does not parse.
func BlockLen(b []byte) int {
	if len(b) == 0 || b[0] != blockVersion {
		return 0
	}
	r := reader{b: b[1:]}
	return int(min(r.uvarint(), uint64(len(b))))
}

// ReadBlock appends to dst the postings of the block whose key has the given place. It returns an error if the places
// do not ascend.
func ReadBlock(dst []Posting, begin Place, b []byte) ([]Posting, error) {
	if len(b) == 0 || b[0] != blockVersion {
		return dst, errBadBlock
	}
	r := reader{b: b[1:]}
	n := r.uvarint()
	if n > uint64(len(b)) {
		return dst, errBadBlock
	}
	// Postings are written field by field, because copying a struct right after writing its fields stalls the processor.
	old := len(dst)
	dst = slices.Grow(dst, int(n))[:old+int(n)]
	last := beforeBlock(begin)
	at, day, attrs := last.Place, last.Day, last.Attrs
	for i := range dst[old:] {
		before := at
		if step := r.uvarint(); step > 0 {
			at.Pos += step
			r.bad = r.bad || at.Pos < before.Pos && i > 0 // The first may be at 0, which is after the place before it.
		} else {
			at = r.placeAfter(before)
		}
		length, count := r.uvarint(), uint32(1)
		day = at.likelyDay(day)
		if length&usual == 0 {
			head := r.uvarint()
			count = uint32(head >> commonBits)
			if head&sameAttrs == 0 {
				attrs ^= Attrs(r.uvarint())
			}
			if head&likelyDay == 0 {
				day = uint16(int64(day) + r.varint())
			}
		}
		p := &dst[old+i]
		p.Namespace, p.Stream, p.Pos = at.Namespace, at.Stream, at.Pos
		p.Len, p.Count, p.Day, p.Attrs = uint32(length>>usualBits), count, day, attrs
	}
	if r.bad {
		return dst[:old], errBadBlock
	}
	return dst, nil
}

// Merge adds postings to those of a block and returns the resulting blocks. The first block keeps the place of the old
// one. If all postings come after the old ones, all blocks but the last are full; otherwise all are about equally long.
// Both lists are sorted.
func Merge(block, added []Posting) [][]Posting {
	all := slices.Concat(block, added)
	size := BlockSize
	if len(block) > 0 && len(added) > 0 && block[len(block)-1].Compare(added[0].Place) >= 0 {
		slices.SortStableFunc(all, func(a, b Posting) int { return a.Compare(b.Place) })
		if n := (len(all) + BlockSize - 1) / BlockSize; n > 1 {
			size = (len(all) + n - 1) / n
		}
	}
	return slices.Collect(slices.Chunk(all, size))
}

// reader decodes numbers and strings. Once something does not parse, it is bad and returns zeros.
type reader struct {
	b   []byte
	at  int // everything before it has been read
	bad bool
}

func (r *reader) fail() { r.bad, r.at = true, len(r.b) }

// uvarint reads what binary.AppendUvarint wrote. For numbers of up to three bytes it is faster than binary.Uvarint.
func (r *reader) uvarint() (v uint64) {
	for shift := 0; r.at < len(r.b) && shift < 64; shift += 7 {
		c := r.b[r.at]
		r.at++
		v |= uint64(c&0x7f) << (shift & 63)
		if c < 0x80 && (shift < 63 || c <= 1) { // otherwise it has more than 64 bits
			return v
		}
	}
	r.fail()
	return 0
}

func (r *reader) varint() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (r *reader) byte() byte {
	if r.at == len(r.b) {
		r.fail()
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

func (r *reader) uint64() uint64 {
	if len(r.b)-r.at < 8 {
		r.fail()
		return 0
	}
	r.at += 8
	return binary.BigEndian.Uint64(r.b[r.at-8:])
}

// bytes returns the next n bytes. They alias the input.
func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)-r.at) {
		r.fail()
		return nil
	}
	r.at += int(n)
	return r.b[r.at-int(n) : r.at]
}

func (r *reader) text() string { return string(r.bytes(r.uvarint())) }
