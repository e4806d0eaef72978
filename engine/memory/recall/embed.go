package recall

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Projects accept as many dimensions as rank can store.
var _ [rank.MaxDimensions]struct{} = [project.MaxEmbeddingDimensions]struct{}{}

// Limits of making vectors of documents.
const (
	embedTexts   = 32       // in one call
	embedText    = 8 << 10  // bytes of one text; the rest is not embedded
	embedBytes   = 64 << 10 // of the texts of one call, unless a single text has more
	embedLook    = 64       // documents that one step examines
	commitTries  = 5        // attempts of a batch whose documents may change in the meantime
	embedTimeout = 10 * time.Second
)

// embedding is the state of making vectors. All of it may be lost: a scan of the index restores it.
type embedding struct {
	embedder Embedder // nil if there is no provider
	static   Static
	line     *line
	health   health

	mu    sync.Mutex
	walks map[index.Space]*walk
	other map[index.Space]length
	used  map[string]tenant.EmbeddingUsage // by queries, and by failed calls for documents; not written yet
	// differ are the spaces with vectors of another static model, for which the log was told.
	differ map[index.Space]bool
}

// walk is the progress through the documents of a space that wait for their vectors. One worker at a time uses it.
type walk struct {
	after    *rank.Place       // The documents up to here no longer wait, as far as is known.
	most     int               // texts in the next call; reduced after a failure, to find a single text that is refused
	failures int               // failures that the texts may have caused
	refused  []index.Embedding // documents that failed as the only text of a call since the last success; the next results show whether they caused it
	paused   time.Time         // no call before this time
}

// stepVectors does one unit of the work of making a tenant's vectors, if there is any, for the first space that has
// some. If there is none now, again says when there will be, unless it is the zero time.
func (svc *Service) stepVectors(ctx context.Context, tenantID string) (done bool, again time.Time, err error) {
	if done, err := svc.writeUsed(ctx, tenantID); done || err != nil {
		return done, again, err
	}
	for it, err := range records.Each[project.Record](ctx, svc.db, tenantID, records.Project.All()) {
		if errors.Is(err, records.ErrDamaged) {
			continue
		}
		if err != nil {
			return false, again, err
		}
		setup, err := svc.projects.SetupOf(it.Value)
		if err != nil {
			return false, again, err
		}
		pinc := it.Value.Incarnation
		for _, s := range []index.Space{index.Memories(pinc), index.Transcripts(pinc)} {
			var later time.Time
			switch {
			case setup.Settings.EmbeddingModel == "":
				done, err = svc.index.DeleteVectors(ctx, tenantID, s)
			case svc.embedding.makes(&setup.Settings):
				done, later, err = svc.embedSpace(ctx, tenantID, it.Value, &setup.Settings, s)
			}
			if errors.Is(err, index.ErrBroken) {
				err = nil // The index's own job finds this too, and starts a rebuild.
			}
			if done || err != nil {
				return done, again, records.LostRace(err)
			}
			if !later.IsZero() && (again.IsZero() || later.Before(again)) {
				again = later
			}
		}
	}
	return false, again, nil
}

// walkOf returns the progress through a space. It starts at the beginning if there is none.
func (svc *Service) walkOf(s index.Space) *walk {
	e := &svc.embedding
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.walks[s] == nil {
		e.walks[s] = &walk{most: embedTexts}
	}
	return e.walks[s]
}

// walked forgets the progress through a space in which nothing waits.
func (svc *Service) walked(s index.Space) {
	e := &svc.embedding
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.walks, s)
}

// embedSpace puts fresh documents of a space into blocks, and then makes vectors of some documents that wait for them.
func (svc *Service) embedSpace(ctx context.Context, tenantID string, p *project.Record, set *project.Settings,
	s index.Space) (done bool, again time.Time, err error) {
	if done, err := svc.index.FoldAll(ctx, tenantID, s); done || err != nil {
		return done, again, err
	}
	model := svc.embedding.tag(set)
	if isStatic(set) {
		if leave, err := svc.leavesToOthers(ctx, tenantID, s); leave || err != nil {
			return false, again, err
		}
	}
	m, done, err := svc.index.Await(ctx, tenantID, s, model, svc.agreed(s, model))
	if done {
		svc.walked(s) // The pause was for another model, or another length.
	}
	if m == nil || done || err != nil {
		return done, again, err
	}
	w := svc.walkOf(s)
	if svc.db.Now().Before(w.paused) {
		return false, w.paused, nil
	}
	found, settled, last, err := svc.index.Unembedded(ctx, tenantID, s, m, w.after, embedLook)
	switch {
	case err != nil:
		return false, again, err
	case last != nil:
		e := &embedded{project: p, set: set, space: s, made: m, walk: w, last: last, settled: settled}
		if isStatic(set) {
			return true, again, svc.embedStatic(ctx, tenantID, e, found)
		}
		return svc.embedSome(ctx, tenantID, e, found)
	case w.after != nil: // Documents added since then may be before it.
		w.after, w.refused = nil, nil
		return true, again, nil
	}
	svc.walked(s)
	return false, again, nil
}

// textsOf returns the texts of some documents, up to the given number and to what one call accepts. If it did not take
// all documents, behind is the place of the last one taken. Texts that are missing are empty.
func (svc *Service) textsOf(ctx context.Context, tenantID string, p *project.Record, s index.Space,
	found []index.Embedding, most int) (
	some, empty []index.Embedding, texts []string, behind *rank.Place, err error) {
	size := 0
	for i := range found {
		text, err := svc.textOf(ctx, tenantID, p, s, found[i].Doc)
		if err != nil {
			return nil, nil, nil, nil, err
		}
		text = strings.TrimSpace(beginning(text))
		if len(texts) == most || len(texts) > 0 && size+len(text) > embedBytes {
			return some, empty, texts, &found[i-1].Doc.Place, nil
		}
		if text == "" {
			empty = append(empty, found[i])
		} else {
			some, texts, size = append(some, found[i]), append(texts, text), size+len(text)
		}
	}
	return some, empty, texts, nil, nil
}

// beginning returns the part of a text that is embedded.
func beginning(text string) string {
	if len(text) <= embedText {
		return text
	}
	return strings.ToValidUTF8(text[:embedText], "")
}

// textOf returns the source text of a document, after the name of its speaker, or "" if it is gone or damaged.
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

// embedded are some documents of a space that are being embedded.
type embedded struct {
	project *project.Record
	set     *project.Settings
	space   index.Space
	made    *index.Modelled
	walk    *walk
	last    *rank.Place       // of all that were examined
	settled []index.Embedding // that need no vector, or get none
}

// embedSome makes one call of the provider and commits the vectors with their cost. After a failure the documents wait,
// and are found by their words in the meantime.
func (svc *Service) embedSome(ctx context.Context, tenantID string, e *embedded, found []index.Embedding) (
	done bool, again time.Time, err error) {
	some, empty, texts, behind, err := svc.textsOf(ctx, tenantID, e.project, e.space, found, e.walk.most)
	if err != nil {
		return false, again, err
	}
	if behind != nil {
		e.last = behind
	}
	e.settled = append(e.settled, empty...)
	var used tenant.EmbeddingUsage
	if len(texts) > 0 {
		got, failed, called, again, err := svc.embed(ctx, &call{set: e.set, within: embedTimeout, texts: texts})
		if err != nil || !called {
			return false, again, err
		}
		if failed == nil {
			some, failed = svc.quantised(e, some, got.Vectors)
		}
		used = usageOf(got, failed)
		if failed != nil {
			svc.noteUsed(tenantID, used)
			svc.fails(tenantID, e.walk, failed, len(texts))
			if len(texts) > 1 || !failed.ofTexts() {
				return true, again, nil
			}
			// It waits until all others were tried, and does not delay theirs.
			e.walk.refused, some, used = append(e.walk.refused, some...), nil, tenant.EmbeddingUsage{}
		} else if some == nil {
			svc.noteUsed(tenantID, used) // The vectors have other dimensions, so all are made again.
			return true, again, nil
		} else {
			if len(e.walk.refused) == 1 { // It stays without a vector. Several may have failed for another reason.
				e.settled = append(e.settled, e.walk.refused...)
			}
			e.walk.failures, e.walk.refused, e.walk.most = 0, nil, min(e.walk.most+1, embedTexts)
		}
	}
	if err := svc.commitVectors(ctx, tenantID, e, some, used); err != nil {
		return true, again, err
	}
	e.walk.after = e.last
	return true, again, nil
}

// quantised returns documents with their vectors, leaving out invalid vectors. It returns nothing if the vectors have
// other dimensions than those of the space, and all of them have to be made again.
func (svc *Service) quantised(e *embedded, some []index.Embedding, vectors [][]float32) (
	[]index.Embedding, *ProviderError) {
	var made, none []index.Embedding
	var bad error // of a text with an invalid vector, which does not keep the others from theirs
	for i, v := range vectors {
		q, err := rank.Quantise(v)
		if err != nil {
			none, bad = append(none, some[i]), err
			continue
		}
		some[i].Quantised = q
		made = append(made, some[i])
		svc.heard(e.space, e.made.Model, e.made.Length, len(v))
	}
	if len(made) == 0 {
		return some, &ProviderError{Code: "bad_reply", Detail: bad.Error()}
	}
	if n := uint32(len(made[0].Bytes)); e.made.Length != 0 && e.made.Length != n {
		if svc.agreed(e.space, e.made.Model) == n {
			return nil, nil
		}
		return some, &ProviderError{Code: "bad_reply",
			Detail: fmt.Sprintf("a vector has %d dimensions, those before it have %d", n, e.made.Length)}
	}
	e.settled = append(e.settled, none...)
	return made, nil
}

// fails records that a call with so many texts failed. If the texts may have caused it, the walk pauses.
func (svc *Service) fails(tenantID string, w *walk, failed *ProviderError, texts int) {
	w.most = max(1, texts/2)
	if failed.ofTexts() {
		w.failures++
		w.paused = svc.db.Now().Add(backoff(w.failures, failed.RetryAfter))
	}
	svc.db.Log.Error("no vectors could be made; until then documents are found only by their words", "tenant", tenantID, "error", failed)
}

// commitVectors writes vectors with their cost, for the documents that have not changed since the provider was called.
func (svc *Service) commitVectors(ctx context.Context, tenantID string, e *embedded, made []index.Embedding,
	used tenant.EmbeddingUsage) (err error) {
	for range commitTries {
		if made, err = svc.index.Left(ctx, tenantID, made); err != nil {
			return err
		}
		settled, err := svc.index.Left(ctx, tenantID, e.settled)
		if err != nil {
			return err
		}
		t := svc.db.Begin(ctx, tenantID)
		if used != (tenant.EmbeddingUsage{}) {
			if err := tenant.Use(t, tenant.UsageRecord{Embeddings: used}); err != nil {
				return err
			}
		}
		svc.index.PutVectors(t, e.space, e.made, made)
		svc.index.Unmark(t, e.space, settled)
		err = svc.db.Commit(ctx, tenantID, t.Batch)
		if _, lost := errors.AsType[*store.ConflictError](err); !lost {
			return err
		}
	}
	svc.noteUsed(tenantID, used)
	return nil
}

// length is the number of dimensions of a model's vectors that differ from a space's.
type length struct {
	model  rank.Model
	length int
	agreed bool // two consecutive vectors had it
}

// heard records the number of dimensions of a vector that arrived for a space; kept is the number of those that the
// space keeps, or 0 if there are none yet. If a request names no number, a model may change it. Two consecutive vectors
// that agree count as such a change, and a single one as an exception.
func (svc *Service) heard(s index.Space, model rank.Model, kept uint32, dimensions int) {
	e := &svc.embedding
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.other[s]
	if kept == 0 || int(kept) == dimensions {
		delete(e.other, s)
	} else {
		e.other[s] = length{model, dimensions, was.model == model && was.length == dimensions}
	}
}

// agreed returns the new number of dimensions of the model's vectors if they are to be made again for it, and otherwise
// 0.
func (svc *Service) agreed(s index.Space, model rank.Model) uint32 {
	e := &svc.embedding
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.other[s]; now.agreed && now.model == model {
		return uint32(now.length)
	}
	return 0
}
