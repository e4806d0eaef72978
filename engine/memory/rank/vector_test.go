package rank_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
)

func random(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func exact(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
	}
	return dot / math.Sqrt(aa*bb)
}

// Bytes keep the cosine to within 0.03, whatever the lengths are, and bits are the signs.
func TestQuantisedVectorsKeepTheirAngle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := 8 + r.IntN(600)
		a, b := random(r, n), random(r, n)
		for i := range b { // some pairs are near
			b[i] = b[i]*3 + a[i]*float32(r.IntN(2)*6)
		}
		qa, errA := rank.Quantise(a)
		qb, errB := rank.Quantise(b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if got, want := rank.Cosine(qa.Bytes, qb.Bytes), exact(a, b); math.Abs(got-want) > .03 {
			t.Fatalf("%d dimensions: cosine %.4f, want %.4f", n, got, want)
		}
		differ := 0
		for i := range a {
			if (a[i] > 0) != (b[i] > 0) {
				differ++
			}
		}
		if !qa.Agrees() || (rank.Quantised{Bits: qb.Bits, Bytes: qa.Bytes}).Agrees() {
			t.Fatalf("%d dimensions: the bits are not those of the bytes, or also those of others", n)
		}
		if got := rank.Hamming(qa.Bits, qb.Bits); got != differ {
			t.Fatalf("%d bits differ, want %d", got, differ)
		}
	}
}

// The cosine of a sum is that of the original vectors, each normalised and weighted. What has no bytes adds nothing.
func TestCosineOfSum(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		n := 8 + r.IntN(600)
		query, sum := random(r, n), make([]float32, n)
		var parts []rank.Part
		for range 1 + r.IntN(4) {
			v, weight, length, scale := random(r, n), .1+r.Float64(), 0., float32(.01+10*r.Float64())
			for _, x := range v {
				length += float64(x) * float64(x)
			}
			for i := range v {
				sum[i] += float32(weight / math.Sqrt(length) * float64(v[i]))
				v[i] *= scale
			}
			q, err := rank.Quantise(v)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, rank.Part{Bytes: q.Bytes, Weight: weight}, rank.Part{Weight: 1})
		}
		q, err := rank.Quantise(query)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := rank.CosineOfSum(q.Bytes, parts...), exact(query, sum); math.Abs(got-want) > .03 {
			t.Fatalf("%d dimensions, %d parts: cosine %.4f, want %.4f", n, len(parts)/2, got, want)
		}
		if got, want := rank.CosineOfSum(q.Bytes, parts[0]), rank.Cosine(q.Bytes, parts[0].Bytes); math.Abs(got-want) > 1e-9 {
			t.Fatalf("a sum of one: %.9f, want %.9f", got, want)
		}
	}
	if got := rank.CosineOfSum([]byte{1, 2}); got != 0 {
		t.Errorf("nothing at all has the cosine %f", got)
	}
}

func TestWhatIsNoVector(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, v := range [][]float32{nil, {}, {0, 0}, {1, nan}, {nan, 1}, {inf, 1}, make([]float32, rank.MaxDimensions+1)} {
		if _, err := rank.Quantise(v); err == nil {
			t.Errorf("%d dimensions: no error", len(v))
		}
	}
}

// The nearest are those of a full sort.
func TestNearestEqualsASort(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		k, n := 1+r.IntN(20), r.IntN(500)
		kept, all := rank.NewNearest[int](k), []rank.Near[int]{}
		for i := range n {
			d := r.IntN(40)
			kept.Add(i, d)
			all = append(all, rank.Near[int]{What: i, Distance: d})
		}
		slices.SortStableFunc(all, func(a, b rank.Near[int]) int { return a.Distance - b.Distance })
		if want := all[:min(k, n)]; !slices.Equal(kept.All(), want) {
			t.Fatalf("kept %v, want %v", kept.All(), want)
		}
	}
}

func TestShareOfAScore(t *testing.T) {
	for cosine, want := range map[float64]float64{.2: 0, .8: 2 * rank.VectorWeight, .5: rank.VectorWeight} {
		if got := rank.Share(rank.VectorWeight, cosine, .2, .8, 2); math.Abs(got-want) > 1e-12 {
			t.Errorf("the share of %v is %v, want %v", cosine, got, want)
		}
	}
	if got := rank.Share(rank.VectorWeight, .1, .1, .1, 1); got != rank.VectorWeight {
		t.Errorf("the share of the only one is %v", got)
	}
}
