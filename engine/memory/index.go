package memory

import (
	"context"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// How many memories are reindexed in one commit, and about how many bytes of index that may write.
const (
	reindexChunk = 64
	reindexBytes = 2 << 20
)

// document returns the memory as the index stores it, without its place and its words.
func (r *Record) document() rank.Document {
	d := rank.Document{ID: r.ID(), Category: RankCategories[r.Category], Session: r.session(), Group: r.Source,
		Tags: r.Tags, Importance: r.Importance, Created: r.Time()}
	if r.ExpiresAt != nil {
		d.Expires = *r.ExpiresAt
	}
	return d
}

// analyse returns the documents of a memory.
func (svc *Service) analyse(rec *Record) index.Analysed {
	return svc.index.Analyse(rec.document(), rec.Content, rec.valueText())
}

// searchedValue is how many bytes of a value's text are indexed.
const searchedValue = 4 << 10

// valueText returns the searchable text of a memory's value: its names, strings and numbers.
func (r *Record) valueText() string {
	if len(r.Value) == 0 {
		return ""
	}
	text := rawjson.Text(r.Value)
	if len(text) > searchedValue {
		text = strings.ToValidUTF8(text[:searchedValue], "")
	}
	return text
}

// Text returns the searchable text of a memory.
func (r *Record) Text() string { return strings.TrimSuffix(r.Content+"\n"+r.valueText(), "\n") }

// Index reindexes some of a project's memories after its index was dropped. It is an index.Source. It starts with the
// earliest, because memories of a session are indexed in that order. It skips damaged memories, and those that changed
// since the index was dropped, because these are already indexed.
func (svc *Service) Index(ctx context.Context, tenant string, pinc ident.Incarnation, after string) (
	next string, err error,
) {
	rng := records.MemoryTime.Under(pinc)
	prefix := rng.From
	if after != "" {
		rng.To = append(prefix[:len(prefix):len(prefix)], after...)
	}
	rng.Reverse, rng.KeysOnly, rng.Limit = true, true, reindexChunk
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return "", err
	}
	again := func(t *records.Tx) (last string, err error) {
		for _, it := range r.Ranges[0] {
			if t.Bytes() > reindexBytes {
				break
			}
			last = string(it.Key[len(prefix):])
			_, _, key, _ := records.MemoryTime.Split(it.Key)
			there, err := index.HasDocument(t, pinc, key)
			if err != nil {
				return "", err
			}
			rec, err := svc.expect(t, pinc, key)
			if isDamaged(err) {
				continue
			}
			if err == nil && rec != nil && !there {
				err = svc.index.PutDocuments(t, pinc, svc.analyse(rec))
			}
			if err != nil {
				return "", err
			}
		}
		return last, nil
	}
	return records.Update(ctx, svc.db, ident.Caller{Tenant: tenant}, ident.Once{}, again)
}
