package recall

import (
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
)

// near embeds the query, if the project has a model. If that fails in the project's time, or failed recently, only
// words are searched and the result says so.
func (r *recalling) near() (*index.Near, error) {
	if r.embedded || !r.words || r.Alike {
		return r.vector, nil
	}
	setup, err := r.svc.projects.SetupOf(r.project)
	if err != nil || setup.Settings.EmbeddingModel == "" {
		return nil, err
	}
	set := &setup.Settings
	text := beginning(strings.TrimSpace(r.Query.Query))
	if isStatic(set) {
		r.embedded = true
		r.vector, r.out.Vectors = r.svc.nearStatic(text)
		return r.vector, nil
	}
	if r.svc.embedding.embedder == nil {
		return nil, nil
	}
	r.embedded = true
	got, failed, called, _, err := r.svc.embed(r.ctx, &call{set: set, query: string(r.project.Incarnation[:]),
		within: time.Duration(set.EmbeddingTimeoutMS) * time.Millisecond, texts: []string{text}})
	var q rank.Quantised
	if failed == nil {
		if q, err = rank.Quantise(got.Vectors[0]); err != nil {
			failed, err = &ProviderError{Code: "bad_reply"}, nil
		}
	}
	if called {
		r.svc.noteUsed(r.tenant, usageOf(got, failed))
	}
	if failed != nil {
		r.out.Vectors = failed.Code
		return nil, err
	}
	r.out.Vectors = "used"
	r.vector = &index.Near{Model: r.svc.embedding.tag(set), Weight: rank.VectorWeight, Quantised: q}
	return r.vector, nil
}

// notice sets in the result that a space's vectors have other dimensions than the query's, so that they do not count.
// If the next vector confirms this, they are made again.
func (r *recalling) notice(s index.Space) {
	if r.vector != nil && r.vector.Differs {
		r.out.Vectors = staticDiffers
	}
	if r.vector == nil || r.vector.Length == 0 {
		return
	}
	dimensions := len(r.vector.Bytes)
	r.svc.heard(s, r.vector.Model, r.vector.Length, dimensions)
	if int(r.vector.Length) == dimensions {
		return
	}
	r.out.Vectors = "dimensions_changed"
	if r.svc.agreed(s, r.vector.Model) != 0 {
		r.svc.embedding.line.add(r.tenant, r.svc.db.Now())
	}
}
