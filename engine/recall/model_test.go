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
	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// modelDoc is one passage of a memory as the model of recall sees it.
type modelDoc struct {
	spec    memory.Spec
	at      time.Time // last stored
	expires time.Time
	pos     int // in its session
	counts  map[string]float64
	length  float64
}

// recallModel ranks by the definition: all passages, one by one. What is expired counts until it is swept, and is never
// shown.
type recallModel struct {
	docs      []*modelDoc
	next      map[string]int // position by session
	languages map[string]bool
}

func (m *recallModel) remove(gone func(*modelDoc) bool) { m.docs = slices.DeleteFunc(m.docs, gone) }

func (m *recallModel) store(spec memory.Spec, at, expires time.Time) {
	m.remove(func(d *modelDoc) bool { return d.spec.Key == spec.Key })
	terms, latin := enginetest.Analyser().Document(spec.Content)
	m.languages[latin] = true
	for part := range slices.Chunk(terms, 1000) {
		m.next[spec.SessionID]++
		d := &modelDoc{spec: spec, at: at, expires: expires, pos: m.next[spec.SessionID], counts: map[string]float64{},
			length: float64(len(part))}
		for _, term := range part {
			d.counts[term]++
		}
		m.docs = append(m.docs, d)
	}
}

// rebuild places what is there anew, as an index that was dropped is built again: what was changed longest ago comes
// first.
func (m *recallModel) rebuild() {
	slices.SortStableFunc(m.docs, func(a, b *modelDoc) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(b.spec.Key, a.spec.Key))
	})
	m.next, m.languages = map[string]int{}, map[string]bool{}
	for _, d := range m.docs {
		m.next[d.spec.SessionID]++
		d.pos = m.next[d.spec.SessionID]
		_, latin := enginetest.Analyser().Document(d.spec.Content)
		m.languages[latin] = true
	}
}

// scores gives the score of each memory that a query finds, by key.
func (m *recallModel) scores(q recall.Query, now time.Time, month string) map[string]float64 {
	const k1, b, near, session, date, important = .9, .4, .5, .25, .15, .05
	type place struct {
		sessionID string
		pos       int
	}
	by, mean := map[place]*modelDoc{}, 0.0
	for _, d := range m.docs {
		by[place{d.spec.SessionID, d.pos}] = d
		mean += d.length / float64(len(m.docs))
	}
	words := enginetest.Analyser().Query(q.Query, slices.Sorted(maps.Keys(m.languages)))
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
	shares, sum := make([]float64, len(words)), 0.0
	for w := range words {
		df := 0.0
		for _, d := range m.docs {
			if count(d, w) > 0 {
				df++
			}
		}
		if df > 0 {
			shares[w] = math.Log(1 + (float64(len(m.docs))-df+.5)/(df+.5))
			sum += shares[w]
		}
	}
	holds := func(d *modelDoc) bool {
		for w := range words {
			if count(d, w) > 0 {
				return true
			}
		}
		return false
	}
	out := map[string]float64{}
	for _, d := range m.docs {
		var left, right *modelDoc
		if d.spec.SessionID != "" {
			left, right = by[place{d.spec.SessionID, d.pos - 1}], by[place{d.spec.SessionID, d.pos + 1}]
		}
		own := holds(d)
		if !own && !holds(left) && !holds(right) || !m.shown(d, q, now) {
			continue
		}
		score, dated := 0.0, d
		if !own {
			if dated = left; !holds(left) {
				dated = right
			}
		}
		for w := range words {
			score += shares[w] / sum * sat(count(d, w)+near*(count(left, w)+count(right, w)))
		}
		if d.spec.SessionID != "" {
			for w := range words {
				n := 0.0
				for _, o := range m.docs {
					if o.spec.SessionID == d.spec.SessionID {
						n += count(o, w)
					}
				}
				score += session * shares[w] / sum * sat(n)
			}
		}
		if month != "" && dated.at.Format("January 2006") == month {
			score += date * 1.5
		}
		if d.spec.Category != "core" && own {
			score += important * (math.Round(*d.spec.Importance*14)/14 - .5)
		}
		out[d.spec.Key] = max(out[d.spec.Key], score)
	}
	return out
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

// Whatever is stored, overwritten, forgotten, expired, put into blocks, built again and restarted: recall answers as
// the model does.
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
					words := 1 + r.IntN(12)
					if r.IntN(60) == 0 {
						words = 2500
					}
					importance := float64(r.IntN(11)) / 10
					spec := memory.Spec{Key: fmt.Sprint("k", r.IntN(160)), Content: randomText(r, words) + "x",
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
					stored, _, err := k.Memories.Store(t.Context(), k.Admin, access.Once{}, ident.DefaultProject, spec)
					if err != nil {
						t.Fatal(err)
					}
					expires := time.Time{}
					if stored.ExpiresAt != nil {
						expires = *stored.ExpiresAt
					}
					m.store(spec, k.Clock(), expires)
				case n < 33:
					key := fmt.Sprint("k", r.IntN(160))
					if _, err := k.Memories.Forget(t.Context(), k.Admin, access.Once{}, ident.DefaultProject,
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
	got, err := k.Recall.Recall(t.Context(), k.Admin, ident.DefaultProject, q)
	if err != nil {
		t.Fatal(err)
	}
	want := m.scores(q, k.Clock(), month)
	best := slices.Sorted(maps.Values(want))
	slices.Reverse(best)
	if len(got.Data) != min(len(want), 100) {
		t.Fatalf("%+v: %d found, the model finds %d", q, len(got.Data), len(want))
	}
	seen := map[string]bool{}
	for i, h := range got.Data {
		if seen[h.Key] || math.Abs(h.Score-want[h.Key]) > 1e-6 || math.Abs(h.Score-best[i]) > 1e-6 {
			t.Fatalf("%+v: hit %d is %s with %v; the model gives it %v and has %v there", q, i, h.Key, h.Score,
				want[h.Key], best[i])
		}
		sum := h.Why.Neighbours + h.Why.Session + h.Why.Date + h.Why.Importance
		for _, term := range h.Why.Terms {
			sum += term.Weight
		}
		if math.Abs(sum-h.Score) > 1e-6 {
			t.Fatalf("the parts of %v add up to %v: %+v", h.Score, sum, h.Why)
		}
		seen[h.Key] = true
	}
}
