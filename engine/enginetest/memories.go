package enginetest

import (
	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Remember stores a memory.
func (k *Kit) Remember(spec memory.Spec) memory.Memory {
	k.Helper()
	m, _, err := k.Memories.Store(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, spec)
	if err != nil {
		k.Fatalf("storing %+v: %v", spec, err)
	}
	return m
}

// Forget forgets a memory by its full name, and reports whether it existed.
func (k *Kit) Forget(key string) bool {
	k.Helper()
	f, err := k.Memories.Forget(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, key)
	if err != nil || memory.ID(f.Namespace, f.Key) != key {
		k.Fatalf("forgetting %q: %+v %v", key, f, err)
	}
	return f.Forgotten
}

// ListMemories lists all matching memories, in pages of the given size.
func (k *Kit) ListMemories(f memory.Filter, limit int) (out []memory.Memory) {
	k.Helper()
	page := records.Page{Limit: limit}
	for {
		list, err := k.Memories.List(k.Context(), k.Admin, ident.DefaultProject, f, memory.Recent, page)
		if err != nil {
			k.Fatal(err)
		}
		if len(list.Data) > limit || list.HasMore != (list.NextCursor != nil) {
			k.Fatalf("a page of %d has %d, has_more %v", limit, len(list.Data), list.HasMore)
		}
		out = append(out, list.Data...)
		if !list.HasMore {
			return out
		}
		page.Cursor = *list.NextCursor
	}
}

// History returns all earlier versions of a memory, in pages of the given size.
func (k *Kit) History(key string, limit int) (out []memory.Version) {
	k.Helper()
	page := records.Page{Limit: limit}
	for {
		list, err := k.Memories.History(k.Context(), k.Admin, ident.DefaultProject, key, page)
		if err != nil {
			k.Fatal(err)
		}
		out = append(out, list.Data...)
		if !list.HasMore {
			return out
		}
		page.Cursor = *list.NextCursor
	}
}

func (k *Kit) Keep(key, content string) {
	k.Helper()
	_, _, err := k.Memories.Store(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
		memory.Spec{Key: key, Content: content})
	if err != nil {
		k.Fatal(err)
	}
}

func Quota(q memory.Quota) func(*engine.Options) {
	return func(o *engine.Options) { o.Memories = q }
}

// Search answers a query, which must be valid.
func (k *Kit) Search(q recall.Query) recall.Result {
	k.Helper()
	r, err := k.Recall.Recall(k.Context(), k.Admin, ident.DefaultProject, q)
	if err != nil {
		k.Fatalf("%+v: %v", q, err)
	}
	return r
}

// Found are the keys of the memories, or the texts of the messages, that a query finds.
func (k *Kit) Found(q recall.Query) (out []string) {
	k.Helper()
	for _, h := range k.Search(q).Data {
		if h.Kind == "memory" {
			out = append(out, h.Key)
		} else {
			out = append(out, h.Content)
		}
	}
	return out
}
