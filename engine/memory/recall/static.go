package recall

import (
	"context"
	"crypto/sha256"

	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// StaticModel makes vectors of texts in process, in microseconds, with a table of vectors of words.
type StaticModel interface {
	// Embed returns the vector of a text, or nil if the model knows none of its words.
	Embed(text string) []float32
	// Words calls yield with each word that the model knows as a whole, and its vector.
	Words(yield func(word string, vector []float32))
	// Digest identifies the model: models with the same digest make the same vectors.
	Digest() [sha256.Size]byte
}

// Static is the operator's static model.
type Static struct {
	Model StaticModel // nil: there is none
	// Adopt replaces vectors made with another static model by vectors of this one. Without it, two servers with
	// different models would keep replacing each other's vectors.
	Adopt bool
}

// Values of a result's Vectors for a project with the static model, besides "used".
const (
	staticMissing = "static_model_missing"
	staticDiffers = "static_model_differs"
	noKnownWord   = "no_known_word" // the model knows no word of the query
)

// isStatic reports whether a project uses the static model.
func isStatic(set *project.Settings) bool { return set.EmbeddingModel == project.StaticEmbeddings }

// any reports whether this server makes vectors at all.
func (e *embedding) any() bool { return e.embedder != nil || e.static.Model != nil }

// makes reports whether this server can make vectors with the model of a project.
func (e *embedding) makes(set *project.Settings) bool {
	if isStatic(set) {
		return e.static.Model != nil
	}
	return e.embedder != nil
}

// tag returns the tag of the vectors of a project's model.
func (e *embedding) tag(set *project.Settings) rank.Model {
	if isStatic(set) {
		return rank.StaticModel(e.static.Model.Digest())
	}
	return rank.ModelOf(set.EmbeddingModel, set.EmbeddingDimensions)
}

// nearStatic returns the vector of a query, and the result's Vectors.
func (svc *Service) nearStatic(text string) (*index.Near, string) {
	e := &svc.embedding
	if e.static.Model == nil {
		return nil, staticMissing
	}
	q, err := rank.Quantise(e.static.Model.Embed(text))
	if err != nil {
		return nil, noKnownWord
	}
	return &index.Near{Model: rank.StaticModel(e.static.Model.Digest()), Weight: rank.StaticVectorWeight, Quantised: q,
		Similar: svc.similar().to}, "used"
}

// leavesToOthers reports whether a space has vectors of another static model that this server must not replace. It
// logs that once.
func (svc *Service) leavesToOthers(ctx context.Context, tenantID string, s index.Space) (bool, error) {
	e := &svc.embedding
	if e.static.Adopt {
		return false, nil
	}
	another, err := svc.index.OfAnotherStatic(ctx, tenantID, s, rank.StaticModel(e.static.Model.Digest()))
	if !another || err != nil {
		return false, err
	}
	e.mu.Lock()
	told := e.differ[s]
	e.differ[s] = true
	e.mu.Unlock()
	if !told {
		svc.db.Log.Error("no vectors are made: those stored are of another static model; start all servers with the same "+
			"--static-embeddings, and one of them with --static-embeddings-adopt", "tenant", tenantID)
	}
	return true, nil
}

// embedStatic makes the vectors of some documents and commits them. A text without a known word gets none.
func (svc *Service) embedStatic(ctx context.Context, tenantID string, e *embedded, found []index.Embedding) error {
	some, empty, texts, behind, err := svc.textsOf(ctx, tenantID, e.project, e.space, found, embedLook)
	if err != nil {
		return err
	}
	if behind != nil {
		e.last = behind
	}
	e.settled = append(e.settled, empty...)
	var made []index.Embedding
	for i, text := range texts {
		q, err := rank.Quantise(svc.embedding.static.Model.Embed(text))
		if err != nil {
			e.settled = append(e.settled, some[i])
			continue
		}
		some[i].Quantised = q
		made = append(made, some[i])
	}
	if err := svc.commitVectors(ctx, tenantID, e, made, tenant.EmbeddingUsage{}); err != nil {
		return err
	}
	e.walk.after = e.last
	return nil
}
