//go:build linux

package badgerstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// BenchmarkLevels has 64 sessions append turns of four messages. It measures what each turn writes to the disk for the
// log, for the table that its memtable becomes, and for each level that its records are moved to.
func BenchmarkLevels(b *testing.B) {
	const sessions = 64
	inner := open(b, b.TempDir())
	defer inner.Close()
	s := store.Seal(inner)
	free := make(chan *benchSession, sessions)
	words := benchWords()
	for n := range sessions {
		free <- &benchSession{head: fmt.Appendf(nil, "h%02d", n), random: rand.New(rand.NewPCG(uint64(n), 2)), words: words}
	}
	before := writtenBytes(b)
	b.ResetTimer()
	benchtest.Share(b, sessions, b.N, func() error {
		session := <-free
		defer func() { free <- session }()
		return s.Commit(b.Context(), "acme", session.turn())
	})
	b.StopTimer()
	b.ReportMetric(float64(writtenBytes(b)-before)/float64(b.N), "written-B/op")
	for _, level := range inner.main.db.Levels() {
		if level.NumTables > 0 {
			b.Logf("level %d: %d tables, %d MB", level.Level, level.NumTables, level.Size/1_000_000)
		}
	}
}

// benchWords returns a vocabulary for benchSession.text.
func benchWords() []string {
	random := rand.New(rand.NewPCG(3, 4))
	words := make([]string, 1000)
	for i := range words {
		word := make([]byte, 4+random.IntN(9))
		for j := range word {
			word[j] = 'a' + byte(random.IntN(26))
		}
		words[i] = string(word)
	}
	return words
}

// benchSession is a session that only one writer appends to at a time.
type benchSession struct {
	head, value []byte // the key and the value of the record that each turn replaces
	messages    uint64
	random      *rand.Rand
	words       []string
}

// text returns n bytes of words of very different frequency, which blocks of tables compress to about half.
func (s *benchSession) text(n int) []byte {
	text := make([]byte, 0, n+16)
	for len(text) < n {
		text = append(append(text, s.words[int(float64(len(s.words))*math.Pow(s.random.Float64(), 3))]...), ' ')
	}
	return text[:n]
}

// turn returns the records of a turn of 2.2 KB, with the sizes that a server writes.
func (s *benchSession) turn() store.Batch {
	key := func(kind string) []byte {
		return binary.BigEndian.AppendUint64(append(append([]byte("m"), s.head...), kind...), s.messages)
	}
	batch := store.Batch{Expect: []store.Expect{{Key: s.head, Value: s.value}}}
	batch.Put = append(batch.Put, store.Pair{Key: key("headers"), Value: s.text(390)})
	for _, size := range [...]int{500, 240, 1035, 705} {
		batch.Put = append(batch.Put, store.Pair{Key: key("body"), Value: s.text(size)})
		s.messages++
	}
	s.value = s.text(230)
	batch.Put = append(batch.Put, store.Pair{Key: s.head, Value: s.value})
	return batch
}
