package recall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/index"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
	"github.com/seed-0906e6bc/mneme/engine/vector"
)

// Embedder makes vectors of texts.
type Embedder interface {
	// Embed makes one vector for each text, in their order, by one call. Its error is a *ProviderError.
	Embed(ctx context.Context, r EmbedRequest) (Embedded, error)
}

// EmbedRequest asks for vectors. Dimensions 0 leaves their number to the model.
type EmbedRequest struct {
	Model      string
	Dimensions int
	Texts      []string
}

// Embedded are the vectors of a request, and the tokens that the provider says it used.
type Embedded struct {
	Vectors [][]float32
	Tokens  int
}

// ProviderError is why there are no vectors. Its words are safe to show.
type ProviderError struct {
	Code       string // one of summary.ProviderError
	Detail     string
	RetryAfter time.Duration // 0: not said
}

func (e *ProviderError) Error() string { return e.Code + ": " + e.Detail }

// Bounds of making vectors of documents.
const (
	embedTexts   = 32       // in one call
	embedText    = 8 << 10  // bytes of one text; what is behind them is not embedded
	embedBytes   = 64 << 10 // of the texts of one call, unless one text has more
	embedLook    = 256      // documents that one step looks at
	embedTimeout = 10 * time.Second
	retryFirst   = time.Second // after the first failure; each further one doubles it
	retryMost    = 5 * time.Minute
)

// embedding is what the room knows of making vectors. All of it can be lost: a look at the index finds it again.
type embedding struct {
	embedder Embedder // nil: no vectors are made or asked for

	mu     sync.Mutex
	passes map[index.Space]*pass
	used   map[string]tenant.EmbeddingUsage // by queries, not written yet
}

// pass is one walk over a space's documents for those without a vector.
type pass struct {
	model    index.Model
	corpus   string // the state of the space when it began
	after    *rank.Place
	done     bool
	most     int // texts in the next call: after a failure fewer, so that one text that is refused is found
	failures int
	paused   time.Time // no call before it
}

// stepVectors does one unit of the work of making a tenant's vectors, if there is any: of the first space that has
// some.
func (svc *Service) stepVectors(ctx context.Context, tenantID string) (done bool, err error) {
	if done, err := svc.writeUsed(ctx, tenantID); done || err != nil {
		return done, err
	}
	for it, err := range records.Each[project.Record](ctx, svc.db, tenantID, records.Project.All()) {
		if errors.Is(err, records.ErrDamaged) {
			continue
		}
		if err != nil {
			return false, err
		}
		setup, err := svc.projects.SetupOf(it.Value)
		if err != nil {
			return false, err
		}
		pinc := it.Value.Incarnation
		for _, s := range []index.Space{index.Memories(pinc), index.Transcripts(pinc)} {
			if setup.Settings.EmbeddingModel == "" {
				done, err = svc.index.DeleteVectors(ctx, tenantID, s)
			} else {
				done, err = svc.embedSpace(ctx, tenantID, it.Value, &setup.Settings, s)
			}
			if done || err != nil {
				return done, records.LostRace(err)
			}
		}
	}
	return false, nil
}

// passOf gives the walk over a space that is under way, or begins one where the space or the model changed; nil where
// nothing changed, or while the provider is left alone after a failure.
func (svc *Service) passOf(s index.Space, model index.Model, corpus string) *pass {
	e := &svc.embedding
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.passes[s]
	if p == nil || p.model != model || p.done && p.corpus != corpus {
		p = &pass{model: model, corpus: corpus, most: embedTexts}
		e.passes[s] = p
	}
	if p.done || svc.db.Now().Before(p.paused) {
		return nil
	}
	return p
}

// embedSpace puts fresh documents of a space into blocks, and then makes vectors of some documents that have none.
func (svc *Service) embedSpace(ctx context.Context, tenantID string, p *project.Record, set *project.Settings,
	s index.Space) (done bool, err error) {
	if done, err := svc.index.FoldAll(ctx, tenantID, s); done || err != nil {
		if errors.Is(err, index.ErrBroken) {
			return false, nil // the index's own job meets it as well, and has it built again
		}
		return done, err
	}
	corpus, err := svc.index.Corpus(ctx, tenantID, s)
	if err != nil || corpus == "" {
		return false, err
	}
	model := index.ModelOf(set.EmbeddingModel, set.EmbeddingDimensions)
	walk := svc.passOf(s, model, corpus)
	if walk == nil {
		return false, nil
	}
	found, last, err := svc.index.WithoutVector(ctx, tenantID, s, model, walk.after, embedLook)
	if err != nil {
		return false, err
	}
	if last == nil {
		walk.done = true
		return false, nil
	}
	some, texts, behind, err := svc.textsOf(ctx, tenantID, p, s, found, walk.most)
	if err != nil {
		return false, err
	}
	if behind != nil {
		last = behind
	}
	if len(texts) > 0 {
		if err := svc.embedSome(ctx, tenantID, walk, set, s, some, texts); err != nil {
			return true, err
		}
		if walk.failures > 0 {
			return false, nil
		}
	}
	walk.after = last
	return true, nil
}

// textsOf gives the texts of some documents, at most so many, and as many as one call takes. Where that is not all of
// them, behind is the place of the last that was taken.
func (svc *Service) textsOf(ctx context.Context, tenantID string, p *project.Record, s index.Space,
	found []index.Embedding, most int) (some []index.Embedding, texts []string, behind *rank.Place, err error) {
	size := 0
	for i := range found {
		text, err := svc.textOf(ctx, tenantID, p, s, found[i].Doc)
		if err != nil {
			return nil, nil, nil, err
		}
		text = strings.TrimSpace(beginning(text))
		if len(texts) == most || len(texts) > 0 && size+len(text) > embedBytes {
			return some, texts, &found[i-1].Doc.Place, nil
		}
		if text != "" {
			some, texts, size = append(some, found[i]), append(texts, text), size+len(text)
		}
	}
	return some, texts, nil, nil
}

// beginning is what of a text is embedded.
func beginning(text string) string {
	if len(text) <= embedText {
		return text
	}
	return strings.ToValidUTF8(text[:embedText], "")
}

// textOf is what a document was made of, behind the name of who said it; "" where that is gone or damaged.
func (svc *Service) textOf(ctx context.Context, tenantID string, p *project.Record, s index.Space, d *rank.Document) (
	string, error) {
	if s.Kind == records.RecallMemories {
		recs, err := svc.memories.Read(ctx, tenantID, p, []string{d.ID})
		if err != nil || recs[0] == nil {
			return "", err
		}
		return recs[0].Content, nil
	}
	bodies, err := svc.sessions.ReadBodies(ctx, tenantID, ident.IncarnationOf(d.Stream), d.Number, d.Number)
	if err != nil {
		return "", err
	}
	_, m, err := transcript.ParseBody(bodies[0])
	if err != nil {
		return "", nil
	}
	text := searchedText(m)
	if m.Name != "" && text != "" {
		text = m.Name + ": " + text
	}
	return text, nil
}

// embedSome makes one call of the provider and commits the vectors with what they cost. A failure is counted, and
// pauses the walk; the documents are found by words meanwhile.
func (svc *Service) embedSome(ctx context.Context, tenantID string, walk *pass, set *project.Settings, s index.Space,
	some []index.Embedding, texts []string) error {
	got, failed := svc.embed(ctx, embedTimeout, set, texts)
	made := some[:0]
	if failed == nil {
		var bad error // of a text whose vector is none, which keeps no other from its own
		for i, v := range got.Vectors {
			q, err := vector.Quantise(v)
			if err != nil {
				bad = err
				continue
			}
			some[i].Quantised = q
			made = append(made, some[i])
		}
		if len(made) == 0 {
			failed = &ProviderError{Code: "bad_reply", Detail: bad.Error()}
		}
	}
	t := svc.db.Begin(ctx, tenantID)
	if err := tenant.Use(t, tenant.UsageRecord{Embeddings: usageOf(got, failed)}); err != nil {
		return err
	}
	if failed != nil {
		walk.failures++
		if len(texts) == 1 && (failed.Code == "provider_refused" || failed.Code == "bad_reply") {
			// It stays without a vector, and does not keep others from theirs.
			walk.after = &some[0].Doc.Place
		}
		walk.most = max(1, len(texts)/2)
		wait := time.Duration(math.Ldexp(float64(retryFirst), min(walk.failures-1, 20)))
		walk.paused = svc.db.Now().Add(max(min(wait, retryMost), failed.RetryAfter))
		svc.db.Log.Error("no vectors were made; documents are found by their words alone", "tenant", tenantID,
			"error", failed, "again", walk.paused)
		return svc.db.Commit(ctx, tenantID, t.Batch)
	}
	walk.failures, walk.most = 0, min(walk.most+1, embedTexts)
	svc.index.PutVectors(t, s, walk.model, made)
	return svc.db.Commit(ctx, tenantID, t.Batch)
}

// embed makes one call, within a time.
func (svc *Service) embed(ctx context.Context, within time.Duration, set *project.Settings, texts []string) (
	Embedded, *ProviderError) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	got, err := svc.embedding.embedder.Embed(ctx, EmbedRequest{Model: set.EmbeddingModel,
		Dimensions: set.EmbeddingDimensions, Texts: texts})
	if err != nil {
		failed, ok := errors.AsType[*ProviderError](err)
		if !ok {
			failed = &ProviderError{Code: "provider_error", Detail: "the call failed"}
		}
		return got, failed
	}
	if len(got.Vectors) != len(texts) {
		return got, &ProviderError{Code: "bad_reply",
			Detail: fmt.Sprintf("%d vectors came for %d texts", len(got.Vectors), len(texts))}
	}
	want := cmp.Or(set.EmbeddingDimensions, len(got.Vectors[0]))
	for _, v := range got.Vectors {
		if len(v) != want {
			return got, &ProviderError{Code: "bad_reply",
				Detail: fmt.Sprintf("a vector has %d dimensions where %d were wanted", len(v), want)}
		}
	}
	return got, nil
}

func usageOf(got Embedded, failed *ProviderError) tenant.EmbeddingUsage {
	u := tenant.EmbeddingUsage{Calls: 1, Tokens: int64(got.Tokens)}
	if failed != nil {
		u.Failures = 1
	}
	return u
}

// near embeds the query, where the project has a model. Where that fails in the project's time, the answer is by words
// alone and says so.
func (r *recalling) near() (*index.Near, error) {
	if r.embedded || r.svc.embedding.embedder == nil || !r.words {
		return r.vector, nil
	}
	setup, err := r.svc.projects.SetupOf(r.project)
	if err != nil || setup.Settings.EmbeddingModel == "" {
		return nil, err
	}
	set := &setup.Settings
	r.embedded = true
	text := beginning(strings.TrimSpace(r.Query.Query))
	got, failed := r.svc.embed(r.ctx, time.Duration(set.EmbeddingTimeoutMS)*time.Millisecond, set, []string{text})
	var q vector.Quantised
	if failed == nil {
		if q, err = vector.Quantise(got.Vectors[0]); err != nil {
			failed = &ProviderError{Code: "bad_reply"}
		}
	}
	r.svc.noteUsed(r.tenant, usageOf(got, failed))
	if failed != nil {
		r.out.Vectors = failed.Code
		return nil, nil
	}
	r.out.Vectors = "used"
	r.vector = &index.Near{Model: index.ModelOf(set.EmbeddingModel, set.EmbeddingDimensions), Quantised: q}
	return r.vector, nil
}

// noteUsed counts a query's call. The job writes it, because a query writes nothing.
func (svc *Service) noteUsed(tenantID string, u tenant.EmbeddingUsage) {
	e := &svc.embedding
	e.mu.Lock()
	defer e.mu.Unlock()
	sum := e.used[tenantID]
	sum.Add(u)
	e.used[tenantID] = sum
}

// writeUsed writes what queries used.
func (svc *Service) writeUsed(ctx context.Context, tenantID string) (done bool, err error) {
	e := &svc.embedding
	e.mu.Lock()
	sum, some := e.used[tenantID]
	delete(e.used, tenantID)
	e.mu.Unlock()
	if !some {
		return false, nil
	}
	t := svc.db.Begin(ctx, tenantID)
	if err = tenant.Use(t, tenant.UsageRecord{Embeddings: sum}); err == nil {
		err = svc.db.Commit(ctx, tenantID, t.Batch)
	}
	if err != nil {
		svc.noteUsed(tenantID, sum)
	}
	return true, records.LostRace(err)
}
