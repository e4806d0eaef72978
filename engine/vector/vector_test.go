package vector_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/vector"
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

// Bytes keep the cosine to a hundredth, whatever the lengths are, and bits say the signs.
func TestQuantisedVectorsKeepTheirAngle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := 8 + r.IntN(600)
		a, b := random(r, n), random(r, n)
		for i := range b { // some pairs are near
			b[i] = b[i]*3 + a[i]*float32(r.IntN(2)*6)
		}
		qa, errA := vector.Quantise(a)
		qb, errB := vector.Quantise(b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if got, want := vector.Cosine(qa.Bytes, qb.Bytes), exact(a, b); math.Abs(got-want) > .03 {
			t.Fatalf("%d dimensions: cosine %.4f, want %.4f", n, got, want)
		}
		differ := 0
		for i := range a {
			if (a[i] > 0) != (b[i] > 0) {
				differ++
			}
		}
		if got := vector.Hamming(qa.Bits, qb.Bits); got != differ {
			t.Fatalf("%d bits differ, want %d", got, differ)
		}
	}
}

func TestWhatIsNoVector(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, v := range [][]float32{nil, {}, {0, 0}, {1, nan}, {nan, 1}, {inf, 1}, make([]float32, vector.MaxDimensions+1)} {
		if _, err := vector.Quantise(v); err == nil {
			t.Errorf("%d dimensions: no error", len(v))
		}
	}
}

// The nearest are those of a whole sort.
func TestNearestEqualsASort(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		k, n := 1+r.IntN(20), r.IntN(500)
		kept, all := vector.NewNearest[int](k), []vector.Near[int]{}
		for i := range n {
			d := r.IntN(40)
			kept.Add(i, d)
			all = append(all, vector.Near[int]{What: i, Distance: d})
		}
		slices.SortStableFunc(all, func(a, b vector.Near[int]) int { return a.Distance - b.Distance })
		if want := all[:min(k, n)]; !slices.Equal(kept.All(), want) {
			t.Fatalf("kept %v, want %v", kept.All(), want)
		}
	}
}

func TestSharesOfAScore(t *testing.T) {
	got := vector.Shares([]float64{.2, .8, .5}, 2)
	for i, want := range []float64{0, 2 * vector.Weight, vector.Weight} {
		if math.Abs(got[i]-want) > 1e-12 {
			t.Errorf("share %d is %v, want %v", i, got[i], want)
		}
	}
	if one := vector.Shares([]float64{.1}, 1); one[0] != vector.Weight || len(vector.Shares(nil, 1)) != 0 {
		t.Errorf("shares of one: %v", one)
	}
}
