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

// Bounds of making vectors of documents.
const (
	embedTexts   = 32       // in one call
	embedText    = 8 << 10  // bytes of one text; what is behind them is not embedded
	embedBytes   = 64 << 10 // of the texts of one call, unless one text has more
	embedLook    = 64       // documents that one step looks at
	commitTries  = 5        // of a batch whose documents may change meanwhile
	embedTimeout = 10 * time.Second
)

// embedding is what the room knows of making vectors. All of it can be lost: a look at the index finds it again.
type embedding struct {
	embedder Embedder // nil: no vectors are made or asked for
	line     *line
	health   health

	mu    sync.Mutex
	walks map[index.Space]*walk
	other map[index.Space]length
	used  map[string]tenant.EmbeddingUsage // by queries, and by calls for documents that failed; not written yet
}

// walk is the way through the documents of a space that wait for their vectors. One worker at a time has it.
type walk struct {
	after    *rank.Place       // Those up to here wait no more, as far as is known.
	most     int               // texts in the next call: after a failure fewer, so that one text that is refused is found
	failures int               // that the texts may be the reason of
	refused  []index.Embedding // that failed alone since the last success: what comes next tells whether by themselves
	paused   time.Time         // no call before it
}

// stepVectors does one unit of the work of making a tenant's vectors, if there is any: of the first space that has
// some. Where there is none now, again says when there will be, unless it is the zero time.
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
			if setup.Settings.EmbeddingModel == "" {
				done, err = svc.index.DeleteVectors(ctx, tenantID, s)
			} else {
				done, later, err = svc.embedSpace(ctx, tenantID, it.Value, &setup.Settings, s)
			}
			if errors.Is(err, index.ErrBroken) {
				err = nil // The index's own job meets it as well, and has it built again.
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

// walkOf gives the way through a space, which begins anew where it was not under way.
func (svc *Service) walkOf(s index.Space) *walk {
	e := &svc.embedding
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.walks[s] == nil {
		e.walks[s] = &walk{most: embedTexts}
	}
	return e.walks[s]
}

// walked forgets the way through a space in which nothing waits.
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
	model := rank.ModelOf(set.EmbeddingModel, set.EmbeddingDimensions)
	m, done, err := svc.index.Await(ctx, tenantID, s, model, svc.agreed(s, model))
	if done {
		svc.walked(s) // Whatever paused it was about another model, or another length.
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
		return svc.embedSome(ctx, tenantID, &embedded{project: p, set: set, space: s, made: m, walk: w, last: last,
			settled: settled}, found)
	case w.after != nil: // What came since then may lie before it.
		w.after, w.refused = nil, nil
		return true, again, nil
	}
	svc.walked(s)
	return false, again, nil
}

// textsOf gives the texts of some documents, at most so many, and as many as one call takes. Where that is not all of
// them, behind is the place of the last that was taken. Those without a text are empty.
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

// embedded are some documents of a space on their way to vectors.
type embedded struct {
	project *project.Record
	set     *project.Settings
	space   index.Space
	made    *index.Modelled
	walk    *walk
	last    *rank.Place       // of all that were looked at
	settled []index.Embedding // that need no vector, or get none
}

// embedSome makes one call of the provider and commits the vectors with what they cost. After a failure the documents
// wait, and are found by their words meanwhile.
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
			// It waits until all others were asked for, and does not keep them from theirs.
			e.walk.refused, some, used = append(e.walk.refused, some...), nil, tenant.EmbeddingUsage{}
		} else if some == nil {
			svc.noteUsed(tenantID, used) // The vectors have other dimensions, so all are made anew.
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

// quantised gives documents with their vectors, without those whose vector is none. It gives nothing where vectors have
// other dimensions than those that the space has, and all of them are to be made anew.
func (svc *Service) quantised(e *embedded, some []index.Embedding, vectors [][]float32) (
	[]index.Embedding, *ProviderError) {
	var made, none []index.Embedding
	var bad error // of a text whose vector is none, which keeps no other from its own
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

// fails notes that a call for so many texts failed. Where the texts may be why, the walk pauses.
func (svc *Service) fails(tenantID string, w *walk, failed *ProviderError, texts int) {
	w.most = max(1, texts/2)
	if failed.ofTexts() {
		w.failures++
		w.paused = svc.db.Now().Add(backoff(w.failures, failed.RetryAfter))
	}
	svc.db.Log.Error("no vectors were made; documents are found by their words alone", "tenant", tenantID, "error", failed)
}

// commitVectors writes vectors, of those documents that are still as they were when the provider was asked, with what
// they cost.
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

// length is how many dimensions vectors of a model have that differ from a space's.
type length struct {
	model  rank.Model
	length int
	agreed bool // two vectors in a row had them
}

// heard notes how many dimensions a vector has that came for a space, which keeps vectors of some length; 0: none yet.
// A model may change the number that it makes where none is asked for. Two vectors in a row that agree are taken for
// that, and one for an odd text.
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

// agreed is the number of dimensions that vectors of the model have now, where they are to be made anew for that, and
// else 0.
func (svc *Service) agreed(s index.Space, model rank.Model) uint32 {
	e := &svc.embedding
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.other[s]; now.agreed && now.model == model {
		return uint32(now.length)
	}
	return 0
}
