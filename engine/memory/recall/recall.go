// Package recall finds memories and messages: by the words of a query, best first, or without words the most recent.
//
// This file handles a query, query.go has its parameters, hit.go its results, and messages.go and recent.go find
// messages. Memories are in the index as soon as they are stored. Messages are indexed later (transcript.go): a turn
// only leaves a mark, a job indexes the marked sessions, and a query also searches the messages that the job has not
// reached. If a project names a model, embed.go makes vectors of indexed documents and of queries. line.go chooses the
// tenant whose turn it is, and provider.go decides whether to call the provider.
package recall

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Service finds memories and messages. It is safe for concurrent use.
type Service struct {
	db       *records.DB
	jobs     *jobs.Service
	projects *project.Service
	sessions *session.Service
	index    *index.Service
	memories *memory.Service

	embedding embedding
	similar   func() *similarWords // of the static model
}

// New returns a Service.
func New(db *records.DB, work *jobs.Service, projects *project.Service, sessions *session.Service,
	documents *index.Service, memories *memory.Service, embedder Embedder, static Static) *Service {
	svc := &Service{db: db, jobs: work, projects: projects, sessions: sessions, index: documents, memories: memories,
		embedding: embedding{embedder: embedder, static: static, line: newLine(),
			health: health{failed: map[part]*failure{}}, walks: map[index.Space]*walk{},
			other: map[index.Space]length{}, used: map[string]tenant.EmbeddingUsage{}, differ: map[index.Space]bool{}}}
	svc.similar = sync.OnceValue(func() *similarWords { return findSimilar(static.Model, documents.TermOf) })
	return svc
}

// Units returns the background work: indexing transcripts. What may lack vectors is queued for separate workers,
// because a call of the provider may take long.
func (svc *Service) Units() []jobs.Unit {
	units := []jobs.Unit{jobs.AnyJob(records.BacklogJob.All(), svc.stepTranscripts),
		jobs.AnyJob(records.UnindexedJob.All(), svc.stepTranscripts)}
	if svc.embedding.any() {
		units = append(units, jobs.AnyJob(records.FoldJob.All(), func(_ context.Context, tenant string) (bool, error) {
			svc.embedding.line.add(tenant, svc.db.Now())
			return false, nil
		}))
	}
	return units
}

// memoriesAtOnce is how many memories are read together. Each may be 1 MiB.
const memoriesAtOnce = 8

// Recall finds memories and messages, best first, or most recent first if the query has no words. It returns
// query_needed, or an error that names the field, for an invalid query, and not_found if the caller may not use the
// project, or if the query names a missing session and asks only for messages.
func (svc *Service) Recall(ctx context.Context, c ident.Caller, project string, q Query) (Result, error) {
	c, namespace, err := c.In(q.Namespace)
	if err != nil {
		return Result{}, err
	}
	q.Namespace = namespace
	req, err := q.check()
	if err != nil {
		return Result{}, err
	}
	p, _, _, err := svc.projects.Read(ctx, c, project, nil)
	if err != nil {
		return Result{}, err
	}
	r := &recalling{request: req, svc: svc, ctx: ctx, caller: c, tenant: c.Tenant, project: p,
		out: Result{Data: []Hit{}}}
	if !r.words {
		err = r.recent()
	} else if done, failed := r.ofTimes(); done || failed != nil {
		return r.out, failed
	} else {
		r.out.Breadth = rank.BreadthOf(r.Query.Query).String()
		err = r.byWords()
	}
	if err != nil {
		return r.out, err
	}
	if r.Scope == scopeBoth {
		slices.SortStableFunc(r.out.Data, func(a, b Hit) int {
			if !r.words {
				return b.time().Compare(a.time())
			}
			return cmp.Compare(b.Score, a.Score)
		})
	}
	r.out.Data = r.out.Data[:min(len(r.out.Data), r.Limit)]
	return r.out, nil
}

// byWords finds memories and messages by the words of the query.
func (r *recalling) byWords() error {
	if r.Scope != scopeTranscript {
		if err := r.findMemories(); err != nil {
			return err
		}
	}
	if r.Scope != scopeMemories && !r.memoriesAlone() {
		return r.findMessages()
	}
	return nil
}

// recalling is one query in progress.
type recalling struct {
	*request
	svc     *Service
	ctx     context.Context
	caller  ident.Caller
	tenant  string // the caller's
	project *project.Record
	out     Result

	recordsRead int // of memories, by acceptMemory
	embedded    bool
	vector      *index.Near // of the query, once it is embedded
}

// now returns the time that relative dates refer to.
func (r *recalling) now() time.Time {
	if r.Now != nil {
		return *r.Now
	}
	return r.svc.db.Now()
}

// findMemories finds memories by words.
func (r *recalling) findMemories() error {
	q := &index.Query{Space: index.Memories(r.project.Incarnation), Text: r.Query.Query, Filter: r.filter,
		Limit: r.Limit, Under: r.memories.Under()}
	q.Filter.Stream = rank.StreamOf(r.SessionID)
	q.Now, q.Plain, q.Accept = r.now(), r.Plain, r.acceptMemory
	q.Holds = func(d *rank.Document, phrase string) (bool, error) {
		recs, err := r.svc.memories.Read(r.ctx, r.tenant, r.project, []string{d.ID})
		return err == nil && recs[0] != nil && r.svc.index.Holds(recs[0].Text(), phrase), err
	}
	hits, incomplete, err := r.search(q)
	if err != nil {
		return err
	}
	r.out.Incomplete = r.out.Incomplete || incomplete
	now := r.svc.db.Now()
	for some := range slices.Chunk(hits, memoriesAtOnce) {
		keys := make([]string, len(some))
		for i, h := range some {
			keys[i] = h.Doc.ID
		}
		recs, err := r.svc.memories.Read(r.ctx, r.tenant, r.project, keys)
		if err != nil {
			return err
		}
		for i, rec := range recs {
			if rec == nil || !r.memories.Passes(rec, now) {
				continue // it changed in the meantime
			}
			if !r.out.add(memoryHit(&rec.Memory).found(&some[i])) {
				return nil
			}
		}
	}
	return nil
}

// search returns the best hits of the index with at least the required score.
func (r *recalling) search(q *index.Query) (hits []rank.Hit, incomplete bool, err error) {
	if q.Near, err = r.near(); err != nil {
		return nil, false, err
	}
	hits, incomplete, err = r.svc.index.Search(r.ctx, r.tenant, q)
	r.notice(q.Space)
	low := func(h rank.Hit) bool { return r.MinScore > 0 && h.Score < r.MinScore } // scores may be below 0
	return slices.DeleteFunc(hits, low), incomplete, err
}

// maxRecords limits the memories that one query reads because only their records tell whether they match its filter.
const maxRecords = 5_000

// acceptMemory reports whether a document's memory meets the conditions that the index cannot check.
func (r *recalling) acceptMemory(d *rank.Document) (bool, error) {
	if !r.memories.Within(d.ID) || d.Category == rank.Conversation && !r.memories.ShowsConversation(d.Session) {
		return false, nil
	}
	if r.Alike && ident.PathOf(d.ID) != ident.PathOf(memory.ID(r.Namespace, "x")) {
		return false, nil
	}
	if !r.memories.NeedsRecord() {
		return true, nil
	}
	if r.recordsRead++; r.recordsRead > maxRecords {
		r.out.Incomplete = true
		return false, nil
	}
	recs, err := r.svc.memories.Read(r.ctx, r.tenant, r.project, []string{d.ID})
	return err == nil && recs[0] != nil && r.memories.Passes(recs[0], r.svc.db.Now()), err
}

// recentMemories finds the most recent memories.
func (r *recalling) recentMemories() error {
	for page := (records.Page{Limit: r.Limit}); ; {
		list, err := r.svc.memories.List(r.ctx, r.caller, r.project.ID, r.memories, memory.Recent, page)
		if err != nil {
			return err
		}
		for _, m := range list.Data {
			if m.Damaged {
				continue // there is nothing to show
			}
			if !r.out.add(memoryHit(&m)) {
				return nil
			}
		}
		if !list.HasMore || len(r.out.Data) >= r.Limit || len(list.Data) == 0 {
			r.out.Incomplete = r.out.Incomplete || list.HasMore && len(r.out.Data) < r.Limit
			return nil
		}
		page = records.Page{Limit: r.Limit - len(r.out.Data), Cursor: *list.NextCursor}
	}
}
