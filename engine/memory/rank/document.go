package rank

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// Category says what a document is: a message, or a memory of one of three categories.
type Category uint8

// The categories, as they are stored.
const (
	Message Category = iota
	Core
	Daily
	Conversation
)

// Attrs are the attributes of a document in its postings besides the day: its category, its importance in fourteenths,
// its style, and hashes of its tags, its group and its speaker. With them most documents that a filter rejects need not
// be read.
//
// The attributes that change most from one message to the next have the lowest bits, so that blocks, which store
// differences, stay small.
//
//	bit 0 ends with a question, 1 names a time, 2 is by an assistant, 3-8 speaker, 9-12 importance, 13-14 category,
//	15-22 tags, 23-30 group
type Attrs uint32

func (d *Document) attrs() Attrs {
	a := Attrs(speakerOf(d.Speaker))<<3 | Attrs(min(max(d.Importance, 0), 1)*14+.5)<<9 | Attrs(d.Category)<<13 |
		Attrs(hash8(d.Group))<<23
	if d.Asks {
		a |= 1
	}
	if d.Timed {
		a |= 2
	}
	if d.Assistant {
		a |= 4
	}
	for _, t := range d.Tags {
		a |= tagBit(t)
	}
	return a
}

func (a Attrs) asks() bool { return a&1 != 0 }

func (a Attrs) timed() bool { return a&2 != 0 }

func (a Attrs) byAssistant() bool { return a&4 != 0 }

func (a Attrs) speaker() byte { return byte(a >> 3 & 63) }

func (a Attrs) importance() float64 { return float64(min(a>>9&15, 14)) / 14 }

// standing returns how far the importance is above the middle. Messages have no importance.
func (a Attrs) standing() float64 {
	if a.category() == Message {
		return 0
	}
	return a.importance() - .5
}

// lowestStanding is the lowest value of Attrs.standing.
const lowestStanding = -.5

func (a Attrs) category() Category { return Category(a >> 13 & 3) }

func (a Attrs) group() byte { return byte(a >> 23) }

// Grouped reports whether the document has a group.
func (a Attrs) Grouped() bool { return a.group() != 0 }

// HiddenFrom reports whether the document certainly has another group than the viewer's. If it returns false, the
// document may still have another group with the same hash.
func (a Attrs) HiddenFrom(viewer string) bool { return a.Grouped() && a.group() != hash8(viewer) }

func tagBit(tag string) Attrs { return 1 << (15 + hash8(tag)%8) }

// hash8 hashes a string to a byte, which is 0 for the empty string and for no other.
func hash8(s string) byte {
	if s == "" {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(s))
	return byte(h.Sum32()%255) + 1
}

// Document is one indexed text, or one passage of a long one, with the fields that filters and hits need.
type Document struct {
	Place
	ID         string // a memory's key; a message's id follows from its stream and Number
	Number     uint64 // of a message in its session
	Category   Category
	Session    string
	Path       string // of its namespace; a memory's is part of its ID
	Group      string // a memory's source, a message's delegation
	Tags       []string
	Importance float64 // from 0 to 1
	Speaker    string  // the name of a message's speaker
	Assistant  bool    // the message is an assistant's
	Style
	Created time.Time
	Expires time.Time   // zero means never
	Len     uint32      // in terms
	Terms   []TermCount // sorted by term
	Order   []uint16    // index in Terms of each occurrence that counts in Len, in reading order

	encoded []byte // Terms and Order, if the document was read without them
}

// TermCount says how often a document contains a term.
type TermCount struct {
	Term  string
	Count uint32
}

// PassageTerms is the largest number of terms of a text in one passage.
const PassageTerms = 1000

// Passage is a part of a text as a document stores it.
type Passage struct {
	Terms []TermCount
	Order []uint16
	Len   uint32
}

// Passages splits a text's terms, in reading order, into passages. A text without terms is one empty passage. The first
// passage also gets the terms of first, and every passage those of all. These do not count in its length.
func Passages(terms, first, all []string) (out []Passage) {
	for part := range slices.Chunk(terms, PassageTerms) {
		out = append(out, newPassage(part, slices.Concat(first, all)))
		first = nil
	}
	if len(terms) == 0 {
		out = []Passage{newPassage(nil, slices.Concat(first, all))}
	}
	return out
}

func newPassage(terms, aside []string) Passage {
	p := Passage{Len: uint32(len(terms)), Order: make([]uint16, len(terms))}
	sorted := slices.Concat(terms, aside)
	slices.Sort(sorted)
	p.Terms = make([]TermCount, 0, len(sorted))
	for _, t := range sorted {
		if n := len(p.Terms); n > 0 && p.Terms[n-1].Term == t {
			p.Terms[n-1].Count++
		} else {
			p.Terms = append(p.Terms, TermCount{t, 1})
		}
	}
	for i, t := range terms {
		at, _ := slices.BinarySearchFunc(p.Terms, t, compareTerm)
		p.Order[i] = uint16(at)
	}
	return p
}

// counted reports whether a term counts in the length of its document: those of speakers and stop words do not.
func counted(term string) bool { return !IsSpeaker(term) && !isStop(term) }

// CountsUp reports whether a document is consistent: its terms are sorted, add up to its length, and agree with its
// order.
func (d *Document) CountsUp() bool {
	sum := uint64(0)
	left := make([]uint32, len(d.Terms))
	for i, t := range d.Terms {
		left[i] = t.Count
		if counted(t.Term) {
			sum += uint64(t.Count)
		} else {
			left[i] = 0
		}
		if t.Count == 0 || i > 0 && t.Term <= d.Terms[i-1].Term {
			return false
		}
	}
	for _, i := range d.Order {
		if int(i) >= len(left) || left[i] == 0 {
			return false
		}
		left[i]--
	}
	return sum == uint64(d.Len) && len(d.Order) == int(d.Len)
}

// distinct returns the number of different terms of a document that are not stop words.
func (d *Document) distinct() (n int) {
	for _, t := range d.Terms {
		if !isStop(t.Term) {
			n++
		}
	}
	return n
}

func dayOf(t time.Time) uint16 { return uint16(min(max(t.Unix()/86400, 0), 1<<16-1)) }

// Posting returns the document's posting of a term that occurs count times.
func (d *Document) Posting(count uint32) Posting {
	return Posting{Place: d.Place, Count: count, Len: d.Len, Day: dayOf(d.Created), Attrs: d.attrs()}
}

// Count returns how often the document contains a term.
func (d *Document) Count(term string) uint32 {
	if !d.complete() {
		return 0
	}
	i, found := slices.BinarySearchFunc(d.Terms, term, compareTerm)
	if !found {
		return 0
	}
	return d.Terms[i].Count
}

const documentVersion = 5

var errBadDocument = errors.New("an indexed document does not parse")

// ErrFormerDocument is returned for a document that an earlier build encoded.
var ErrFormerDocument = errors.New("an indexed document is of an earlier build")

// Append encodes all of a document except its place, which is in its key.
func (d *Document) Append(dst []byte) []byte {
	text := func(s string) { dst = append(binary.AppendUvarint(dst, uint64(len(s))), s...) }
	dst = append(dst, documentVersion, byte(d.Category), byte(d.Importance*255+.5))
	dst = binary.AppendUvarint(dst, d.Number)
	dst = binary.AppendVarint(dst, d.Created.UnixMilli())
	expires := int64(0)
	if !d.Expires.IsZero() {
		expires = d.Expires.UnixMilli()
	}
	dst = binary.AppendVarint(dst, expires)
	text(d.ID)
	if d.ID == "" {
		text(d.Path)
	}
	text(d.Session)
	text(d.Group)
	text(d.Speaker)
	dst = append(dst, byte(d.attrs()&7))
	dst = binary.BigEndian.AppendUint64(dst, d.Said)
	dst = binary.AppendUvarint(dst, uint64(len(d.Tags)))
	for _, t := range d.Tags {
		text(t)
	}
	dst = binary.AppendUvarint(dst, uint64(d.Len))
	dst = binary.AppendUvarint(dst, uint64(len(d.Terms)))
	dst = appendTerms(dst, d.Terms)
	for _, i := range d.Order {
		dst = binary.AppendUvarint(dst, uint64(i))
	}
	return dst
}

// A term begins with one byte. It says how many bytes the term shares with the previous one, whether a count follows
// because it is not 1, and how many more bytes the term has. The largest number of bytes that it can hold stands for
// that number or more.
const (
	maxShared = 7
	sharedBit = 5
	countBit  = 1 << 4
	maxMore   = 1<<4 - 1
)

func appendTerms(dst []byte, terms []TermCount) []byte {
	last := ""
	for _, t := range terms {
		shared := 0
		for shared < min(maxShared, len(last), len(t.Term)) && last[shared] == t.Term[shared] {
			shared++
		}
		more := t.Term[shared:]
		head := byte(shared<<sharedBit | min(len(more), maxMore))
		if t.Count != 1 {
			head |= countBit
		}
		dst = append(dst, head)
		if len(more) >= maxMore {
			dst = binary.AppendUvarint(dst, uint64(len(more)-maxMore))
		}
		dst = append(dst, more...)
		if t.Count != 1 {
			dst = binary.AppendUvarint(dst, uint64(t.Count))
		}
		last = t.Term
	}
	return dst
}

// eachTerm decodes n terms encoded by appendTerms. The function must not keep a term.
func (r *reader) eachTerm(n uint64, use func(i int, term []byte, count uint32)) {
	var room [64]byte
	term := room[:0]
	for i := 0; uint64(i) < n && !r.bad; i++ {
		head := r.byte()
		shared, more := int(head>>sharedBit), uint64(head&maxMore)
		if more == maxMore {
			more += r.uvarint()
		}
		if shared > len(term) {
			r.fail()
			break
		}
		term = append(term[:shared], r.bytes(more)...)
		count := uint32(1)
		if head&countBit != 0 {
			count = uint32(r.uvarint())
		}
		use(i, term, count)
	}
}

// terms decodes n terms encoded by appendTerms. They are parts of one string.
func (r *reader) terms(n uint64) []TermCount {
	most := min(n, uint64(len(r.b)-r.at), PassageTerms)
	out, ends := make([]TermCount, 0, most), make([]int, 0, most)
	all := make([]byte, 0, 2*(len(r.b)-r.at))
	r.eachTerm(n, func(_ int, term []byte, count uint32) {
		all = append(all, term...)
		out, ends = append(out, TermCount{Count: count}), append(ends, len(all))
	})
	text, from := string(all), 0
	for i, to := range ends {
		out[i].Term = text[from:to]
		from = to
	}
	return out
}

// complete decodes the terms of a document that was read without them. It returns false if they do not parse.
func (d *Document) complete() bool {
	if d.encoded == nil {
		return true
	}
	r := reader{b: d.encoded}
	d.Terms, d.encoded = r.terms(r.uvarint()), nil
	d.Order = r.order()
	return !r.bad
}

// order decodes the rest as the order of a document's terms.
func (r *reader) order() []uint16 {
	out := make([]uint16, 0, min(len(r.b)-r.at, PassageTerms))
	for r.at < len(r.b) && !r.bad {
		i := r.uvarint()
		if i > math.MaxUint16 {
			r.fail()
			break
		}
		out = append(out, uint16(i))
	}
	return out
}

// ReadDocument decodes what Append encoded. If terms is false, it leaves out the terms, and the document refers to b.
func ReadDocument(at Place, b []byte, terms bool) (*Document, error) {
	if len(b) < 3 || b[0] == 0 || b[0] > documentVersion {
		return nil, errBadDocument
	}
	if b[0] != documentVersion {
		return nil, ErrFormerDocument
	}
	d := &Document{Place: at, Category: Category(b[1]), Importance: float64(b[2]) / 255}
	r := reader{b: b[3:]}
	d.Number = r.uvarint()
	d.Created = time.UnixMilli(r.varint()).UTC()
	if ms := r.varint(); ms != 0 {
		d.Expires = time.UnixMilli(ms).UTC()
	}
	if d.ID = r.text(); d.ID == "" {
		d.Path = r.text()
	} else {
		d.Path = ident.PathOf(d.ID)
	}
	d.Session, d.Group, d.Speaker = r.text(), r.text(), r.text()
	style := Attrs(r.byte())
	d.Asks, d.Timed, d.Assistant = style.asks(), style.timed(), style.byAssistant()
	d.Said = r.uint64()
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		d.Tags = append(d.Tags, r.text())
	}
	d.Len = uint32(r.uvarint())
	if terms {
		d.Terms = r.terms(r.uvarint())
		d.Order = r.order()
	} else {
		d.encoded = r.b[r.at:]
	}
	if r.bad {
		return nil, errBadDocument
	}
	return d, nil
}
