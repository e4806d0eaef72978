package badgerstore

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Batches of one transaction have the results that they would have one after the other, and leave the same state.
func TestBatchesOfOneTransaction(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	random := rand.New(rand.NewPCG(5, 6))
	keys := [][]byte{[]byte("ka"), []byte("kb"), []byte("kc"), []byte("kd")}
	values := [][]byte{nil, {}, []byte("1"), []byte("2")}
	state := map[string][]byte{}
	some := func() []byte { return values[random.IntN(len(values))] }
	for round := range 300 {
		var group []*request
		var want []int // the index of the precondition that is broken, or -1
		for range 1 + random.IntN(12) {
			batch, broken := store.Batch{}, -1
			for _, key := range keys[:random.IntN(len(keys)+1)] {
				value := some()
				now, exists := state[string(key)]
				if random.IntN(4) > 0 {
					value = slices.Clone(now)
					if exists && value == nil {
						value = []byte{}
					}
				}
				if broken < 0 && (exists != (value != nil) || !bytes.Equal(now, value)) {
					broken = len(batch.Expect)
				}
				batch.Expect = append(batch.Expect, store.Expect{Key: key, Value: value})
			}
			for _, key := range keys {
				switch random.IntN(6) {
				case 0:
					batch.Put = append(batch.Put, store.Pair{Key: key, Value: some()})
				case 1:
					batch.Delete = append(batch.Delete, key)
				}
			}
			group, want = append(group, newRequest("acme", batch)), append(want, broken)
			if broken >= 0 {
				continue
			}
			for _, p := range batch.Put {
				state[string(p.Key)] = append([]byte{}, p.Value...)
			}
			for _, key := range batch.Delete {
				delete(state, string(key))
			}
		}
		s.main.writing.Lock()
		outcomes := s.main.outcomes(group)
		s.main.writing.Unlock()
		for i, err := range outcomes {
			got := -1
			if conflict, refused := errors.AsType[*store.ConflictError](err); refused {
				got = conflict.Index
			} else if err != nil {
				t.Fatal(err)
			}
			if got != want[i] {
				t.Fatalf("round %d, batch %d of %d: precondition %d is broken, want %d", round, i, len(group), got, want[i])
			}
		}
		res, err := s.Read(t.Context(), "acme", store.Query{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range keys {
			value, exists := state[string(key)]
			if got := res.Keys[i].Value; (got != nil) != exists || !bytes.Equal(got, value) {
				t.Fatalf("round %d: %s is %q, want %q", round, key, got, value)
			}
		}
	}
}
