package rank

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// Place is where a document is: its stream, which is a conversation, and its position there. Documents at adjacent
// positions of one stream are neighbours. Those of stream 0 have no neighbours.
type Place struct{ Stream, Pos uint64 }

// StreamOf is the stream of the memories that name a session. Those that name none are in stream 0.
func StreamOf(session string) uint64 {
	if session == "" {
		return 0
	}
	sum := sha256.Sum256([]byte("session " + session))
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// Compare orders places by stream, then by position.
func (p Place) Compare(q Place) int {
	if p.Stream != q.Stream {
		return cmp.Compare(p.Stream, q.Stream)
	}
	return cmp.Compare(p.Pos, q.Pos)
}

// millisecondBits is the logarithm of how many places of stream 0 a millisecond has.
const millisecondBits = 10

// Timed is the first place of the millisecond in which something without a stream was said.
func Timed(at time.Time) Place { return Place{Pos: uint64(at.UnixMilli()) << millisecondBits} }

// likelyDay is the day of what is at a place behind something of another day.
func (p Place) likelyDay(before uint16) uint16 {
	if p.Stream == 0 {
		return uint16(p.Pos >> millisecondBits / (24 * 60 * 60 * 1000))
	}
	return before
}

// Posting says that a document holds a term, and what ranking and filtering want to know of the document.
type Posting struct {
	Place
	Count uint32 // of the term in the document
	Len   uint32 // of the document, in terms
	Day   uint16 // days since 1970
	Attrs Attrs
}

// BlockSize is how many postings a block holds at most.
const BlockSize = 256

const blockVersion = 3

var errBadBlock = errors.New("a block of postings does not parse")

// Most postings count once, have the attributes of the one before, and the day that their place tells. Of one that is usual
// in all of this a block says only where it is and how long its document. Of others the lowest bits of the count say what
// need not be told.
const (
	usual      = 1 // of the length
	usualBits  = 1
	sameAttrs  = 1 // of the count
	likelyDay  = 2
	commonBits = 2
)

// beforeBlock is what the first posting of a block is told from: one just before the place that the block's key names.
func beforeBlock(begin Place) Posting { return Posting{Place: Place{begin.Stream, begin.Pos - 1}} }

// AppendBlock packs sorted postings, none of them before the place that the block's key names: a version, their number,
// then each as the difference from the one before.
func AppendBlock(dst []byte, begin Place, ps []Posting) []byte {
	dst = binary.AppendUvarint(append(dst, blockVersion), uint64(len(ps)))
	last := beforeBlock(begin)
	for _, p := range ps {
		if p.Stream != last.Stream {
			dst = binary.BigEndian.AppendUint64(append(dst, 0), p.Stream)
			dst = binary.AppendUvarint(dst, p.Pos)
		} else {
			dst = binary.AppendUvarint(dst, p.Pos-last.Pos) // never 0
		}
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

// BlockLen tells how many postings a block holds, 0 where it does not parse.
func BlockLen(b []byte) int {
	if len(b) == 0 || b[0] != blockVersion {
		return 0
	}
	r := reader{b: b[1:]}
	return int(min(r.uvarint(), uint64(len(b))))
}

// ReadBlock appends to dst the postings of the block whose key names a place. It refuses one whose places do not ascend.
func ReadBlock(dst []Posting, begin Place, b []byte) ([]Posting, error) {
	if len(b) == 0 || b[0] != blockVersion {
		return dst, errBadBlock
	}
	r := reader{b: b[1:]}
	n := r.uvarint()
	if n > uint64(len(b)) {
		return dst, errBadBlock
	}
	// Each posting is written field by field, because a copy of one that was just put together makes the processor wait.
	old := len(dst)
	dst = slices.Grow(dst, int(n))[:old+int(n)]
	last := beforeBlock(begin)
	at, day, attrs := last.Place, last.Day, last.Attrs
	for i := range dst[old:] {
		before := at
		if step := r.uvarint(); step > 0 {
			at.Pos += step
			r.bad = r.bad || at.Pos < before.Pos && i > 0 // The first may be at 0, which is behind the place before it.
		} else {
			at.Stream, at.Pos = r.uint64(), r.uvarint()
			r.bad = r.bad || at.Stream <= before.Stream
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
		p.Stream, p.Pos, p.Len, p.Count, p.Day, p.Attrs = at.Stream, at.Pos, uint32(length>>usualBits), count, day, attrs
	}
	if r.bad {
		return dst[:old], errBadBlock
	}
	return dst, nil
}

// Merge adds postings to those of a block and gives what belongs in blocks. The first block keeps the place of the old
// one. Where all postings come behind the old ones, all blocks but the last are full; else all are about as long. Both
// lists are sorted.
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

// reader takes numbers and strings off packed bytes. Once they do not parse, it is bad and gives zeros.
type reader struct {
	b   []byte
	at  int // what is before it is read
	bad bool
}

func (r *reader) fail() { r.bad, r.at = true, len(r.b) }

// uvarint reads what binary.AppendUvarint packed. With numbers of up to three bytes it is faster than binary.Uvarint.
func (r *reader) uvarint() (v uint64) {
	for shift := 0; r.at < len(r.b) && shift < 64; shift += 7 {
		c := r.b[r.at]
		r.at++
		v |= uint64(c&0x7f) << (shift & 63)
		if c < 0x80 && (shift < 63 || c <= 1) { // else it has more than 64 bits
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

// bytes takes so many bytes off. They are part of what is read.
func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)-r.at) {
		r.fail()
		return nil
	}
	r.at += int(n)
	return r.b[r.at-int(n) : r.at]
}

func (r *reader) text() string { return string(r.bytes(r.uvarint())) }
