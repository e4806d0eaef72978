package rank

// This file quantises and compares embeddings, and computes how much nearness adds to a score.
//
// An embedding is stored twice: as one bit for each dimension, its sign, which a first pass reads for all documents;
// and as one signed byte for each dimension, with which the best of that pass are compared. Both compare only the
// angle, so the length of a vector and the scale of its bytes do not matter.

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"
)

// MaxDimensions limits the dimensions of a vector.
const MaxDimensions = 8192

var (
	errDimensions = errors.New("a vector must have from 1 to 8,192 dimensions")
	errNumber     = errors.New("a vector must hold finite numbers, not all of them 0")
)

// Quantised is a vector of len(Bytes) dimensions.
type Quantised struct {
	Bits  []byte // the sign of dimension i is bit i%8 of byte i/8: 1 for above 0
	Bytes []byte // each dimension as an int8, the largest being 127 or −127
}

// Quantise quantises a vector: each dimension is stored relative to the largest one, in steps of 1/127.
func Quantise(v []float32) (q Quantised, err error) {
	if len(v) == 0 || len(v) > MaxDimensions {
		return q, errDimensions
	}
	largest := 0.
	for _, x := range v {
		if a := math.Abs(float64(x)); a > largest || a != a {
			largest = a
		}
	}
	if !(largest > 0) || math.IsInf(largest, 0) {
		return q, errNumber
	}
	q = Quantised{Bits: make([]byte, BitBytes(len(v))), Bytes: make([]byte, len(v))}
	for i, x := range v {
		if x > 0 {
			q.Bits[i/8] |= 1 << (i % 8)
		}
		q.Bytes[i] = byte(int8(math.Round(float64(x) / largest * 127)))
	}
	return q, nil
}

// Agrees reports whether the bits, of which there are enough, are the signs of the bytes. If a byte is 0, its bit may
// be either.
func (q Quantised) Agrees() bool {
	for i, x := range q.Bytes {
		if x != 0 && (int8(x) > 0) != (q.Bits[i/8]>>(i%8)&1 == 1) {
			return false
		}
	}
	return true
}

// Model is the tag of a model with its number of dimensions, where 0 means the model's default.
type Model [8]byte

// ModelOf returns the tag for a model's name.
func ModelOf(name string, dimensions int) Model {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte(name+"\x00"), uint32(dimensions)))
	return Model(sum[:8])
}

// staticTag begins the tags of static models, so that a server can tell that a space has vectors of another one.
const staticTag = "stat"

// StaticModel returns the tag for a static model with that digest of its files.
func StaticModel(digest [sha256.Size]byte) Model {
	return Model(append([]byte(staticTag), digest[:4]...))
}

// Static reports whether the tag is that of a static model.
func (m Model) Static() bool { return string(m[:len(staticTag)]) == staticTag }

// Of returns the vector after the model's tag, or nil if the tag is another one or there is no vector.
func (m Model) Of(tagged []byte) []byte {
	if len(tagged) <= len(m) || Model(tagged) != m {
		return nil
	}
	return tagged[len(m):]
}

// BitBytes returns the number of bytes for the bits of n dimensions.
func BitBytes(dimensions int) int { return (dimensions + 7) / 8 }

// Hamming returns the number of bits in which two equally long bit vectors differ.
func Hamming(a, b []byte) (n int) {
	b = b[:len(a)]
	for i := range a {
		n += bits.OnesCount8(a[i] ^ b[i])
	}
	return n
}

// Cosine returns the cosine of the angle between two quantised vectors of the same dimensions, from −1 to 1, or 0 if
// one of them is zero.
func Cosine(a, b []byte) float64 {
	aa, bb := dot(a, a), dot(b, b)
	if aa == 0 || bb == 0 {
		return 0
	}
	return float64(dot(a, b)) / math.Sqrt(float64(aa)*float64(bb))
}

// Part is a quantised vector with its weight in a sum. One without bytes is ignored.
type Part struct {
	Bytes  []byte
	Weight float64
}

// CosineOfSum returns the cosine of the angle between a quantised vector and a weighted sum of others, each normalised
// first, because quantised vectors differ in scale.
func CosineOfSum(a []byte, parts ...Part) float64 {
	sum := make([]float64, len(a))
	for _, p := range parts {
		if length := math.Sqrt(float64(dot(p.Bytes, p.Bytes))); length > 0 {
			for i, x := range p.Bytes {
				sum[i] += p.Weight / length * float64(int8(x))
			}
		}
	}
	var ab, aa, bb float64
	for i, b := range sum {
		x := float64(int8(a[i]))
		ab, aa, bb = ab+x*b, aa+x*x, bb+b*b
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}

// The messages around a message show what it is about. So its nearness is the weighted mean of that of its own vector
// and, with more weight, of the sum of its own and its neighbours' vectors. These weights found the most.
const (
	contextShare  = .7 // the rest is the own vector's
	contextBefore = .5
	contextBehind = .3
)

// Among returns the nearness, from −1 to 1, of a vector between two others to a quantised vector. A neighbour without
// bytes is ignored.
func Among(a, own, before, behind []byte) float64 {
	alone := Cosine(own, a)
	among := CosineOfSum(a, Part{own, 1}, Part{before, contextBefore}, Part{behind, contextBehind})
	return alone + contextShare*(among-alone)
}

// dot returns the scalar product of two quantised vectors of the same dimensions.
func dot(a, b []byte) (sum int64) {
	b = b[:len(a)]
	for i := range a {
		sum += int64(int8(a[i])) * int64(int8(b[i]))
	}
	return sum
}

// Near is an item with its distance. Less is nearer.
type Near[T any] struct {
	What     T
	Distance int
}

// Nearest keeps the k nearest of the items added to it. Of equally near ones it keeps those that came first.
type Nearest[T any] struct {
	k    int
	kept []Near[T]
}

// NewNearest returns a Nearest that keeps the k nearest.
func NewNearest[T any](k int) *Nearest[T] { return &Nearest[T]{k: k} }

// Add adds an item.
func (n *Nearest[T]) Add(what T, distance int) {
	if n.kept = append(n.kept, Near[T]{what, distance}); len(n.kept) >= 4*n.k+64 {
		n.cut()
	}
}

func (n *Nearest[T]) cut() {
	slices.SortStableFunc(n.kept, func(a, b Near[T]) int { return cmp.Compare(a.Distance, b.Distance) })
	n.kept = n.kept[:min(len(n.kept), n.k)]
}

// All returns the items kept, nearest first.
func (n *Nearest[T]) All() []Near[T] {
	n.cut()
	return n.kept
}

// What the nearest document gets, relative to the text that matches the words best, which has 1: by the vectors of a
// provider's model, and by those of a static model, which is less reliable. See docs/RECALL.md.
const (
	VectorWeight       = .4
	StaticVectorWeight = .3
)

// Share returns what a cosine adds to a score: weight times the best word score for the highest cosine of those
// compared, nothing for the lowest, and linearly in between. If all are equal, each adds the whole. Normalised scores
// are added, because with ranks a weak list would displace a strong one.
func Share(weight, cosine, low, high, best float64) float64 {
	if high > low {
		best *= (cosine - low) / (high - low)
	}
	return weight * best
}
