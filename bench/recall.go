package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
)

// language makes texts and queries of words that are as uneven as those of a natural language: the n-th most frequent
// of its 37,000 words occurs 1/n times as often as the first (Zipf's law with exponent 1).
type language struct {
	random *rand.Rand
	words  []string  // most frequent first
	upTo   []float64 // the summed frequency of each word and those before it
}

const vocabulary = 37_000

func newLanguage(seed uint64) *language {
	l := &language{random: rand.New(rand.NewPCG(seed, 37))}
	made, letters, sum := map[string]bool{}, rand.New(rand.NewPCG(1, 2)), 0.0 // the words are the same for every seed
	for len(l.words) < vocabulary {
		var b strings.Builder
		for range 2 + letters.IntN(2+min(len(l.words)/5000, 2)) {
			b.WriteByte("bdfgklmnprstvz"[letters.IntN(14)])
			b.WriteByte("aeiou"[letters.IntN(5)])
			if letters.IntN(4) == 0 {
				b.WriteByte("lnrst"[letters.IntN(5)])
			}
		}
		if w := b.String(); !made[w] {
			made[w] = true
			l.words = append(l.words, w)
			sum += 1 / float64(len(l.words))
			l.upTo = append(l.upTo, sum)
		}
	}
	return l
}

func (l *language) word() string {
	at := l.random.Float64() * l.upTo[len(l.upTo)-1]
	return l.words[min(sort.SearchFloat64s(l.upTo, at), len(l.words)-1)]
}

// some returns n words.
func (l *language) some(n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = l.word()
	}
	return strings.Join(out, " ")
}

// text returns about 200 characters.
func (l *language) text() string {
	var b strings.Builder
	for b.Len() < 200 {
		b.WriteString(l.word())
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

// mistyped returns a word of seven letters or more in which one letter, not the first, is wrong.
func (l *language) mistyped() string {
	for {
		w := []byte(l.words[l.random.IntN(len(l.words))])
		if len(w) < 7 {
			continue
		}
		w[1+l.random.IntN(len(w)-1)] = "qwxjy"[l.random.IntN(5)] // letters that no word of the language has
		return string(w)
	}
}

// memoryFile returns a tenant's file with memories that were changed a second apart, to import.
func memoryFile(texts []string) []byte {
	var b strings.Builder
	b.WriteString(`{"mneme_export":1,"tenant":"default","created_at":"2026-03-05T12:00:00Z"}` + "\n" +
		`{"type":"project","id":"default","name":"default"}` + "\n")
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, text := range texts {
		at := began.Add(time.Duration(i) * time.Second).Format(time.RFC3339)
		fmt.Fprintf(&b, `{"type":"memory","project":"default","key":"m%d","content":%q,"category":"core","importance":0.5,`+
			`"created_at":%q,"updated_at":%q,"version":1}`+"\n", i, text, at, at)
	}
	sum := sha256.Sum256([]byte(b.String()))
	fmt.Fprintf(&b, `{"type":"end","records":{"project":1,"memory":%d},"sha256":"%s"}`+"\n", len(texts),
		hex.EncodeToString(sum[:]))
	return []byte(b.String())
}

// question is a kind of query that recalls measures.
type question struct {
	title   string
	clients int
	make    func(l *language) string
	mneme   bool // peers are not asked
}

// recalls compares recall, and the import of what is recalled, between two builds, with tantivy where it is installed.
// Rounds alternate between them.
func recalls(o options) error {
	l := newLanguage(1)
	texts := make([]string, o.pick(100_000, 2000))
	for i := range texts {
		texts[i] = l.text()
	}
	systems, stop, err := startRecalls(o)
	defer stop()
	if err != nil {
		return err
	}
	fmt.Println("| import | MB/s until the answer | processor time a MB, until the index is at rest |")
	fmt.Println("|---|---|---|")
	file := memoryFile(texts)
	for _, p := range systems {
		if err := p.importTexts(file, texts); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	fmt.Println("\n| query | by | p50, ratio to the first | p99, ratio | processor time, ratio | p50 | p99 | processor time |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	few := func(l *language) string { return l.some(2 + l.random.IntN(3)) }
	for _, q := range []question{
		{title: "two to four words", clients: 1, make: few},
		{title: "two to four words, 8 clients", clients: 8, make: few, mneme: true},
		{title: "a mistyped word", clients: 1, make: (*language).mistyped, mneme: true},
		{title: "40 pasted words", clients: 1, make: func(l *language) string { return l.some(40) }},
	} {
		if strings.Contains(q.title, o.only) {
			if err := q.print(systems, o); err != nil {
				return fmt.Errorf("%s: %w", q.title, err)
			}
		}
	}
	return nil
}

// startRecalls starts the older build if there is one, Mneme, and tantivy if peers are installed.
func startRecalls(o options) (systems []peer, stop func(), err error) {
	stop = func() {
		for _, p := range systems {
			p.stop()
		}
	}
	builds := []struct{ name, program string }{{"Mneme, before", o.before}, {"**Mneme**", o.mneme}}
	for _, b := range builds {
		if b.program == "" {
			continue
		}
		of := o
		of.mneme = b.program
		m, err := startMneme(of)
		if err != nil {
			return systems, stop, err
		}
		systems = append(systems, peer{m, b.name, "a server over HTTP", []what{keep, search}})
	}
	if o.peers == "" {
		return systems, stop, nil
	}
	s, err := startPeer(o, []string{filepath.Join(o.peers, "venv", "bin", "python"), "peer.py", "tantivy"})
	if err == nil {
		systems = append(systems, peer{s, "tantivy", "in the agent's process", []what{keep, search}})
	}
	return systems, stop, err
}

// importTexts stores texts, and prints a row if the system imports files.
func (p *peer) importTexts(file []byte, texts []string) error {
	m, ok := p.system.(*mneme)
	if !ok {
		for _, text := range texts {
			if _, err := p.do(command{Do: keep, Text: text}); err != nil {
				return err
			}
		}
		return nil
	}
	before, err := m.cpu()
	if err != nil {
		return err
	}
	_, us, err := m.post(m.adm, "/import", "application/x-ndjson", file, 200)
	if err != nil {
		return err
	}
	if err := m.settle(); err != nil {
		return err
	}
	after, err := m.cpu()
	mb := float64(len(file)) / 1e6
	fmt.Printf("| %s | %.1f | %.0f ms |\n", p.name, mb/(us/1e6), (after-before)/1000/mb)
	return err
}

// print prints a line for each system that answers the question.
func (q *question) print(systems []peer, o options) error {
	systems = slices.DeleteFunc(slices.Clone(systems), func(p peer) bool { _, own := p.system.(*mneme); return q.mneme && !own })
	took := make([]costs, len(systems))
	rounds, each := o.pick(10, 2), o.pick(100, 10)
	for round := range rounds + 2 {
		l := newLanguage(uint64(1000 + round))
		batch := make([]command, each)
		for i := range batch {
			batch[i] = command{Do: search, Text: q.make(l), Limit: 5}
		}
		for i, p := range systems {
			c, err := q.ask(p, batch)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if round > 1 { // the first rounds warm caches
				took[i].add(c)
			}
		}
	}
	base := &took[0]
	for i, p := range systems {
		t := &took[i]
		fmt.Printf("| %s | %s | %.2f | %.2f | %.2f | %.2f ms | %.2f ms | %.2f ms |\n", q.title, p.name, t.p50()/base.p50(),
			t.p99()/base.p99(), t.mean()/base.mean(), t.p50()/1000, t.p99()/1000, t.mean()/1000)
	}
	return nil
}

// ask sends queries, from several clients at once if the question says so.
func (q *question) ask(p peer, batch []command) (costs, error) {
	if q.clients == 1 {
		return p.run(batch)
	}
	m := p.system.(*mneme)
	before, err := m.cpu()
	if err != nil {
		return costs{}, err
	}
	var all sync.WaitGroup
	walls, failed := make([]float64, len(batch)), make([]error, len(batch))
	for c := range q.clients {
		all.Go(func() {
			for i := c; i < len(batch); i += q.clients {
				walls[i], failed[i] = m.do(batch[i])
			}
		})
	}
	all.Wait()
	for _, err := range failed {
		if err != nil {
			return costs{}, err
		}
	}
	after, err := m.cpu()
	return costs{walls: walls, cpu: after - before}, err
}

func (c *costs) p99() float64 {
	of := slices.Sorted(slices.Values(c.walls))
	return of[len(of)*99/100]
}
