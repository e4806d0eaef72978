package memory

import (
	"context"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// reach returns the caller as it acts in the namespace of a memory. It returns not_found if the caller does not reach
// that, as if there were no such memory.
func reach(c ident.Caller, id string) (ident.Caller, error) {
	namespace, _ := ident.SplitFullName(id)
	if len(namespace) == 0 && c.Namespaces != nil {
		return c, noMemory(id)
	}
	c, _, err := c.In(namespace)
	if err != nil {
		err = noMemory(id)
	}
	return c, err
}

// Namespace is a namespace that contains memories.
type Namespace struct {
	Namespace []string `json:"namespace"`
}

// Namespaces returns a page of the namespaces at and below a given one that directly contain memories, each before
// those below it. A namespace is listed until its last memory is forgotten, or deleted after it expired. The namespace
// without parts is not listed. Namespaces reads one key per namespace, however many memories there are.
func (svc *Service) Namespaces(ctx context.Context, c ident.Caller, projectID string, below []string,
	page records.Page) (records.List[Namespace], error) {
	out := records.List[Namespace]{Data: []Namespace{}}
	c, below, err := c.In(below)
	if err == nil {
		err = ident.CheckStoredNamespace("namespace", below)
	}
	if err != nil {
		return out, err
	}
	p, _, _, err := svc.projects.Read(ctx, c, projectID, nil)
	if err != nil {
		return out, err
	}
	path := ident.NamespacePath(below)
	list := [][]byte{[]byte("namespaces"), p.Incarnation[:], []byte(path)}
	limit, after, err := page.Decode(list...)
	if err != nil {
		return out, err
	}
	all := records.Memory.Under(p.Incarnation)
	// Keys consist of the namespace's path, "!" or "/", and the rest.
	from := func(name string) []byte { return append(all.From[:len(all.From):len(all.From)], name...) }
	rng := all
	rng.From, rng.To = from(path+"!"), from(path+"0")
	if path == "" { // "0" is the byte after "/"
		rng.From = from("/")
	}
	if len(after) > 0 {
		rng.From = from(string(after) + `"`) // after "!"
	}
	for {
		it, err := svc.db.FirstKey(ctx, c.Tenant, rng)
		if err != nil || it == nil {
			return out, err
		}
		_, id, _ := records.Memory.Split(it.Key)
		namespace, _ := ident.SplitFullName(id)
		at, _, _ := strings.Cut(id, "!")
		rng.From = from(at + `"`)
		if !ident.InNamespace(id, path) {
			continue // it only has the same prefix, like /users-of and /users
		}
		if len(out.Data) == limit {
			last := ident.NamespacePath(out.Data[limit-1].Namespace)
			out.HasMore, out.NextCursor = true, records.Cursor([]byte(last), list...)
			return out, nil
		}
		out.Data = append(out.Data, Namespace{namespace})
	}
}
