package recall_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// modelDoc is one passage of a memory in the model of recall.
type modelDoc struct {
	spec    memory.Spec
	at      time.Time // when it was last stored
	expires time.Time
	pos     int // position in its session
	counts  map[string]float64
	order   []string // its terms in reading order
	length  float64
	asks    bool
	timed   bool
	said    string // its words without articles
}

// recallModel ranks by the definition, passage by passage. What is expired counts until it is swept, and is never
// shown.
type recallModel struct {
	docs      []*modelDoc
	next      map[string]int // next position by session
	languages map[string]bool
}

func (m *recallModel) remove(gone func(*modelDoc) bool) { m.docs = slices.DeleteFunc(m.docs, gone) }

func (m *recallModel) store(spec memory.Spec, at, expires time.Time) {
	m.remove(func(d *modelDoc) bool { return d.spec.Key == spec.Key })
	read := enginetest.Analyser().Index(spec.Content)
	for _, l := range read.Languages {
		m.languages[l] = true
	}
	for part := range slices.Chunk(read.Terms, 1000) {
		m.next[spec.SessionID]++
		d := &modelDoc{spec: spec, at: at, expires: expires, pos: m.next[spec.SessionID], counts: map[string]float64{},
			length: float64(len(part)), asks: strings.HasSuffix(spec.Content, "?"),
			timed: slices.ContainsFunc([]string{"winter", "summer", "birthday"},
				func(w string) bool { return strings.Contains(spec.Content, w) }),
			said: strings.Join(strings.Fields(strings.ReplaceAll(spec.Content, "the ", "")), " ")}
		d.order = part
		for _, term := range append(slices.Clone(part), read.Stops...) {
			d.counts[term]++
		}
		read.Stops = nil // They are in the first passage.
		m.docs = append(m.docs, d)
	}
}

// rebuild assigns new places to everything, like the rebuild of a dropped index: in the order of the last change.
func (m *recallModel) rebuild() {
	slices.SortStableFunc(m.docs, func(a, b *modelDoc) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(b.spec.Key, a.spec.Key))
	})
	m.next, m.languages = map[string]int{}, map[string]bool{}
	for _, d := range m.docs {
		m.next[d.spec.SessionID]++
		d.pos = m.next[d.spec.SessionID]
		for _, l := range enginetest.Analyser().Index(d.spec.Content).Languages {
			m.languages[l] = true
		}
	}
}

// follows reports whether some term is followed by one of others.
func (d *modelDoc) follows(first, second []string) bool {
	for i := range len(d.order) - 1 {
		if slices.Contains(first, d.order[i]) && slices.Contains(second, d.order[i+1]) {
			return true
		}
	}
	return false
}

// modelHit is a memory that a query finds, with its score.
type modelHit struct {
	*modelDoc
	score      float64
	date       float64
	words      map[int]bool // words of the query that it contains
	duplicates int
}

// hits returns the memories that a query finds by their text, best first.
func (m *recallModel) hits(q recall.Query, now time.Time, month string) []*modelHit {
	const k1, b, before, asked, behind, second, near = .9, .5, .3, .9, .3, .25, 25
	const adjacent = .2
	const session, date, when, relevant, length, question, important = .2, .15, .1, .25, .05, .1, .1
	type place struct {
		sessionID string
		pos       int
	}
	by, mean := map[place]*modelDoc{}, 0.0
	for _, d := range m.docs {
		by[place{d.spec.SessionID, d.pos}] = d
		mean += d.length / float64(len(m.docs))
	}
	searched := enginetest.Analyser().Search(q.Query, slices.Sorted(maps.Keys(m.languages)), true)
	words := searched.Words
	count := func(d *modelDoc, w int) (n float64) {
		if d == nil {
			return 0
		}
		for _, term := range words[w].Terms {
			n += d.counts[term]
		}
		return n / (1 - b + b*d.length/mean)
	}
	sat := func(n float64) float64 { return n / (n + k1) }
	holds := func(d *modelDoc) bool {
		for w := range words {
			if count(d, w) > 0 {
				return true
			}
		}
		return false
	}
	typos := m.addTypos(words)
	rarity := func(having, all float64) float64 {
		return math.Log(1 + (max(all-having, 0)+.5)/(having+.5))
	}
	found := map[string]bool{} // sessions with a word of the query
	for _, d := range m.docs {
		if d.spec.SessionID != "" && holds(d) {
			found[d.spec.SessionID] = true
		}
	}
	shares, sessionShares, sum, sessionSum := make([]float64, len(words)), make([]float64, len(words)), 0.0, 0.0
	for w := range words {
		df, having := 0.0, map[string]bool{}
		for _, d := range m.docs {
			if count(d, w) > 0 {
				df++
				if d.spec.SessionID != "" {
					having[d.spec.SessionID] = true
				}
			}
		}
		if df > 0 {
			shares[w] = rarity(df, float64(len(m.docs)))
			sessionShares[w] = rarity(float64(len(having)), float64(len(found)))
			sum += shares[w]
			if typos[w] {
				shares[w] *= .5
			}
			sessionSum += sessionShares[w]
		}
	}
	best := map[string]*modelHit{}
	for _, d := range m.docs {
		around := map[int]*modelDoc{}
		for _, away := range []int{-2, -1, 1, 2} {
			if d.spec.SessionID != "" {
				around[away] = by[place{d.spec.SessionID, d.pos + away}]
			}
		}
		if !holds(d) && !holds(around[-2]) && !holds(around[-1]) && !holds(around[1]) && !holds(around[2]) ||
			!m.shown(d, q, now) {
			continue
		}
		weights := map[int]float64{-2: second, -1: before, 1: behind, 2: second}
		if around[-1] != nil && around[-1].asks && holds(around[-1]) {
			weights[-1] = asked
		}
		h := &modelHit{modelDoc: d, words: map[int]bool{}}
		for w := range words {
			n := count(d, w)
			h.words[w] = n > 0
			for away, weight := range weights {
				n += weight / (1 + d.length*d.length/near/near) * count(around[away], w)
			}
			h.score += shares[w] / sum * sat(n)
		}
		if d.timed && strings.Contains(q.Query, "when ") {
			h.score += when * min(h.score/relevant, 1)
		}
		for _, p := range searched.Pairs {
			first := slices.IndexFunc(words, func(w rank.Word) bool { return w.Text == p.First })
			second := slices.IndexFunc(words, func(w rank.Word) bool { return w.Text == p.Second })
			if first >= 0 && second >= 0 && first != second && d.follows(words[first].Terms, words[second].Terms) {
				h.score += adjacent * min(shares[first], shares[second]) / sum
			}
		}
		for w := range words {
			n := -count(d, w)
			for _, o := range m.docs {
				if d.spec.SessionID != "" && o.spec.SessionID == d.spec.SessionID {
					n += count(o, w)
				}
			}
			h.score += session * sessionShares[w] / sessionSum * sat(max(n, 0))
		}
		if month != "" && d.at.Format("January 2006") == month {
			h.date = date * 1.5
			h.score += h.date
		}
		h.score += length * math.Log(min(d.length, 15)+1)
		if d.asks && d.length <= 20 {
			h.score -= question
		}
		h.score += important * (math.Round(*d.spec.Importance*14)/14 - .5)
		if b := best[d.spec.Key]; b == nil || h.score > b.score+1e-9 {
			best[d.spec.Key] = h
		}
	}
	return m.chosen(slices.Collect(maps.Values(best)))
}

// addTypos adds to words the compounds of them, and to rare words what they may be misspellings of. It returns the
// words that got such guesses.
func (m *recallModel) addTypos(words []rank.Word) map[int]bool {
	type guess struct {
		term         string
		edits, count int
	}
	having := map[string]int{}
	for _, d := range m.docs {
		for term := range d.counts {
			having[term]++
		}
	}
	out := map[int]bool{}
	for w := range words {
		own := words[w].Terms
		rare := 0
		for _, term := range own {
			rare += having[term]
		}
		longer := false
		for _, b := range words[w].Begins {
			for term := range having {
				if strings.HasPrefix(term, b.Term) && len([]rune(term))-len([]rune(b.Term)) >= b.More &&
					!slices.Contains(words[w].Terms, term) {
					words[w].Terms, longer = append(slices.Clone(words[w].Terms), term), true
				}
			}
		}
		if rare > 1 || words[w].Edits == 0 || longer {
			continue
		}
		var found []guess
		for _, term := range own {
			if term[0] == '~' {
				continue
			}
			for _, other := range slices.Sorted(maps.Keys(having)) {
				n := distance([]rune(term), []rune(other))
				known := slices.ContainsFunc(found, func(g guess) bool { return g.term == other && g.edits <= n })
				if []rune(term)[0] == []rune(other)[0] && n <= words[w].Edits && !slices.Contains(own, other) && !known &&
					having[other] >= 10*rare {
					found = slices.DeleteFunc(found, func(g guess) bool { return g.term == other })
					found = append(found, guess{other, n, having[other]})
				}
			}
		}
		slices.SortStableFunc(found, func(a, b guess) int {
			return cmp.Or(cmp.Compare(a.edits, b.edits), cmp.Compare(b.count, a.count))
		})
		words[w].Terms = slices.Clone(own)
		for i, g := range found {
			if i < 4 && g.edits == found[0].edits {
				words[w].Terms, out[w] = append(words[w].Terms, g.term), true
			}
		}
	}
	return out
}

// distance counts the typing errors between two words, by the definition.
func distance(a, b []rune) int {
	if len(a) == 0 || len(b) == 0 {
		return len(a) + len(b)
	}
	if a[0] == b[0] {
		return distance(a[1:], b[1:])
	}
	n := 1 + min(distance(a[1:], b), distance(a, b[1:]), distance(a[1:], b[1:]))
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		n = min(n, 1+distance(a[2:], b[2:]))
	}
	return n
}

// chosen removes hits that say the same as better ones, and moves newer hits before older ones that they contradict.
func (m *recallModel) chosen(hits []*modelHit) (out []*modelHit) {
	slices.SortFunc(hits, func(a, b *modelHit) int {
		if math.Abs(a.score-b.score) > 1e-7 {
			return cmp.Compare(b.score, a.score)
		}
		return cmp.Or(b.at.Truncate(24*time.Hour).Compare(a.at.Truncate(24*time.Hour)),
			-rank.Place{Stream: rank.StreamOf(a.spec.SessionID), Pos: uint64(a.pos)}.Compare(
				rank.Place{Stream: rank.StreamOf(b.spec.SessionID), Pos: uint64(b.pos)}))
	})
	said := map[string]*modelHit{}
	for _, h := range hits {
		if first := said[h.said]; first != nil {
			first.duplicates++
			continue
		}
		said[h.said] = h
		out = append(out, h)
	}
	for changed := true; changed; {
		changed = false
		for _, h := range out {
			for _, o := range out {
				if o.score > h.score && h.supersedes(o) {
					h.score, changed = o.score, true
				}
			}
		}
	}
	return out
}

func (h *modelHit) supersedes(o *modelHit) bool {
	lighter := *o.spec.Importance-*h.spec.Importance > .35
	if !h.at.After(o.at) || h.length > 64 || o.length > 64 || h.asks || o.asks || lighter ||
		h.date < o.date {
		return false
	}
	distinct := func(d *modelDoc) (n int) {
		for term := range d.counts {
			if term[0] != '~' {
				n++
			}
		}
		return n
	}
	some := false
	for w, holds := range o.words {
		some = some || holds
		if holds && !h.words[w] {
			return false
		}
	}
	same := 0
	for term := range h.counts {
		if o.counts[term] > 0 && term[0] != '~' {
			same++
		}
	}
	return some && same >= 2 && float64(same) >= .66*float64(min(distinct(h.modelDoc), distinct(o.modelDoc)))
}

func (m *recallModel) shown(d *modelDoc, q recall.Query, now time.Time) bool {
	if !d.expires.IsZero() && !d.expires.After(now) || q.Category != "" && q.Category != d.spec.Category ||
		q.SessionID != "" && q.SessionID != d.spec.SessionID || q.Source != "" && q.Source != d.spec.Source ||
		q.Since != "" && d.at.Format(time.RFC3339) < q.Since || q.Until != "" && d.at.Format(time.RFC3339) > q.Until {
		return false
	}
	for _, tag := range q.Tags {
		if !slices.Contains(d.spec.Tags, tag) {
			return false
		}
	}
	return true
}

var modelWords = strings.Fields(`apple apples banana cherry garden gardens river mountain violin piano doctor kitchen
	bicycle travelling traveled travel berlin lisbon tokyo winter summer coffee tea dog dogs puppy birthday wedding school
	the and was café naïve 東京都 寿司 🎉 москва книги haus häuser`)

func randomText(r *rand.Rand, words int) string {
	var b strings.Builder
	for range words {
		b.WriteString(modelWords[r.IntN(len(modelWords))])
		b.WriteByte(' ')
	}
	return b.String()
}

func rngOf(i int) *rand.Rand { return rand.New(rand.NewPCG(uint64(i), 1)) }

func pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

// Whatever is stored, overwritten, forgotten, expired, put into blocks, rebuilt and restarted, recall returns the same
// as the model.
func TestRecallEqualsModel(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 7))
			raw := memstore.New()
			k := enginetest.Open(t, raw)
			m := &recallModel{next: map[string]int{}, languages: map[string]bool{}}
			for range 400 {
				switch n := r.IntN(41); {
				case n < 28:
					words := 1 + r.IntN(5)*r.IntN(5)
					if r.IntN(60) == 0 {
						words = 2500
					}
					importance := float64(r.IntN(11)) / 10
					spec := memory.Spec{Key: fmt.Sprint("k", r.IntN(140)), Content: randomText(r, words) + "x" + pick(r, "", "", "?"),
						Category: pick(r, "core", "daily", "conversation"), SessionID: pick(r, "", "s1", "s2", "s3"),
						Source: pick(r, "", "chat", "import"), Importance: &importance}
					if spec.Category == "conversation" && spec.SessionID == "" {
						spec.SessionID = "s1"
					}
					for range r.IntN(3) {
						spec.Tags = append(spec.Tags, pick(r, "a", "b", "c"))
					}
					slices.Sort(spec.Tags)
					spec.Tags = slices.Compact(spec.Tags)
					stored, _, err := k.Memories.Store(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, spec)
					if err != nil {
						t.Fatal(err)
					}
					expires := time.Time{}
					if stored.ExpiresAt != nil {
						expires = *stored.ExpiresAt
					}
					m.store(spec, k.Clock(), expires)
				case n < 33:
					key := fmt.Sprint("k", r.IntN(140))
					if _, err := k.Memories.Forget(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
						key); err != nil {
						t.Fatal(err)
					}
					m.remove(func(d *modelDoc) bool { return d.spec.Key == key })
				case n < 36:
					k.Advance(time.Duration(r.IntN(20)) * time.Hour)
				case n < 40:
					k.Drain()
					// What expires now is no longer shown, and swept from the next millisecond on.
					m.remove(func(d *modelDoc) bool { return !d.expires.IsZero() && d.expires.Before(k.Clock()) })
					if n == 39 {
						damageFoldJob(k, 'm')
						k.Drain()
						m.rebuild()
					}
				default:
					now := k.Clock()
					k = enginetest.Open(t, raw,
						func(o *engine.Options) { o.Random = rand.NewChaCha8([32]byte{byte(r.IntN(256))}) })
					k.Now = now
				}
				compareRecall(t, k, m, r)
			}
		})
	}
}

// compareTimes compares the result of a query that names only a month with what is of that month. It returns false if
// there is no such memory, or the query finds more.
func (m *recallModel) compareTimes(t *testing.T, q recall.Query, got []recall.Hit, now time.Time, month string) bool {
	t.Helper()
	words := q
	words.Query = strings.TrimSuffix(q.Query, month)
	if !enginetest.Analyser().SaysNothing(words.Query) && len(m.hits(words, now, "")) > 0 {
		return false
	}
	want := map[string]bool{}
	for _, d := range m.docs {
		if d.at.Format("January 2006") == month && m.shown(d, q, now) {
			want[d.spec.Key] = true
		}
	}
	if len(want) == 0 {
		return false
	}
	if len(got) != min(len(want), 100) {
		t.Fatalf("%+v: %d found, the model finds %d of the month", q, len(got), len(want))
	}
	for i, h := range got {
		if !want[h.Key] || math.Abs(h.Score-.15*1.5) > 1e-9 || h.Why.Date != h.Score || i > 0 && h.CreatedAt.After(got[i-1].CreatedAt) {
			t.Fatalf("%+v: hit %d is %+v", q, i, h)
		}
		delete(want, h.Key)
	}
	return true
}

func compareRecall(t *testing.T, k *enginetest.Kit, m *recallModel, r *rand.Rand) {
	t.Helper()
	q := recall.Query{Query: randomText(r, 1+r.IntN(4)), Limit: 100, Category: pick(r, "", "", "", "daily"),
		SessionID: pick(r, "", "", "", "s1"), Source: pick(r, "", "", "", "chat")}
	if r.IntN(4) == 0 {
		q.Tags = []string{pick(r, "a", "b")}
	}
	if r.IntN(5) == 0 {
		q.Since = k.Clock().Add(-time.Duration(r.IntN(90)) * time.Hour).Format(time.RFC3339)
	}
	if r.IntN(5) == 0 {
		q.Until = k.Clock().Add(-time.Duration(r.IntN(90)) * time.Hour).Format(time.RFC3339)
	}
	month := ""
	if q.Since != "" && q.Until != "" && q.Since > q.Until {
		q.Until = ""
	}
	if r.IntN(3) == 0 {
		month = k.Clock().Format("January 2006")
		q.Query += " in " + month
	}
	if r.IntN(3) == 0 {
		q.Query = "when " + q.Query
	}
	got, err := k.Recall.Recall(t.Context(), k.Admin, ident.DefaultProject, q)
	if err != nil {
		t.Fatal(err)
	}
	if month != "" && m.compareTimes(t, q, got.Data, k.Clock(), month) {
		return
	}
	want, said := map[string]*modelHit{}, map[string]string{}
	for _, d := range m.docs {
		said[d.spec.Key] = d.said
	}
	var best []float64
	for _, h := range m.hits(q, k.Clock(), month) {
		want[h.said] = h
		best = append(best, h.score)
	}
	slices.Sort(best)
	slices.Reverse(best)
	if len(got.Data) != min(len(want), 100) {
		t.Fatalf("%+v: %d found, the model finds %d", q, len(got.Data), len(want))
	}
	seen := map[string]bool{}
	for i, h := range got.Data {
		model := want[said[h.Key]]
		if model == nil || seen[model.said] || math.Abs(h.Score-model.score) > 1e-6 || math.Abs(h.Score-best[i]) > 1e-6 ||
			h.Duplicates != model.duplicates {
			t.Fatalf("%+v: hit %d is %+v; the model gives it %+v and has %v there", q, i, h, model, best[i])
		}
		sum := 0.0
		for _, part := range h.Why.Parts() {
			sum += part
		}
		if math.Abs(sum-h.Score) > 1e-6 {
			t.Fatalf("the parts of %v add up to %v: %+v", h.Score, sum, h.Why)
		}
		seen[model.said] = true
	}
}
