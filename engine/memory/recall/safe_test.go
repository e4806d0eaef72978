package recall_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// failing is a store of which one commit fails, before or after it is executed.
type failing struct {
	store.Store
	at    atomic.Int64
	after bool
}

func (f *failing) Commit(ctx context.Context, tenant string, b store.Batch) error {
	last := f.at.Add(-1) == 0
	if last && !f.after {
		return errors.New("the machine stopped")
	}
	if err := f.Store.Commit(ctx, tenant, b); err != nil || !last {
		return err
	}
	return errors.New("the machine stopped")
}

// Whichever write is the last before the machine stops, the index has exactly the words of the existing memories.
func TestIndexAndRecordsAgreeAfterAStop(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := int64(1); ; at++ {
			raw := memstore.New()
			k := enginetest.Open(t, raw)
			f := &failing{Store: raw, after: after}
			f.at.Store(at)
			stopped := changesUntilStop(k, f)
			k = enginetest.Open(t, raw)
			for _, drained := range []bool{false, true} {
				if drained {
					k.Drain()
				}
				living := map[string]bool{}
				for _, m := range k.ListMemories(memory.Filter{}, 1000) {
					living[m.Content] = true
				}
				for i := at % 3; i < 70; i += 3 {
					for _, text := range []string{fmt.Sprint("first", i), fmt.Sprint("second", i)} {
						got := k.Search(recall.Query{Query: text}).Data
						if living[text] != (len(got) > 0) || len(got) > 0 && got[0].Content != text {
							t.Fatalf("stop %d: %q is %v, found %d", at, text, living[text], len(got))
						}
						if drained && !living[text] && k.Holds(ident.DefaultTenant, text+"\x00") {
							t.Fatalf("stop %d: a block of %q is left", at, text)
						}
					}
				}
			}
			if !stopped {
				break
			}
			if at > 10 {
				at += 8 // the steps between are much the same
			}
		}
	}
}

// changesUntilStop stores, overwrites and forgets until a commit fails, and reports whether one did.
func changesUntilStop(k *enginetest.Kit, f *failing) bool {
	o := enginetest.Open(k.TB, f)
	o.Admin = k.Admin
	put := func(i int, text string) error {
		_, _, err := o.Memories.Store(o.Context(), o.Admin, ident.Once{}, ident.DefaultProject,
			memory.Spec{Key: fmt.Sprint("k", i), Content: text, SessionID: pick(rngOf(i), "", "s")})
		return err
	}
	for i := range 66 {
		if put(i, fmt.Sprint("first", i)) != nil {
			return true
		}
	}
	for range 3 {
		if _, err := o.Step(o.Context()); err != nil {
			return true
		}
	}
	for i := range 12 {
		if put(i, fmt.Sprint("second", i)) != nil {
			return true
		}
		if _, err := o.Memories.Forget(o.Context(), o.Admin, ident.Once{}, ident.DefaultProject,
			fmt.Sprint("k", 20+i)); err != nil {
			return true
		}
	}
	return false
}

// Writers, forgetters, readers and jobs run concurrently. In the end recall finds exactly what there is.
func TestRecallUnderConcurrency(t *testing.T) {
	k := enginetest.New(t)
	var working sync.WaitGroup
	const writers, each = 6, 60
	for w := range writers {
		working.Go(func() {
			for i := range each {
				key := fmt.Sprintf("w%dk%d", w, i%40)
				spec := memory.Spec{Key: key, Content: fmt.Sprintf("common unique%s number%d", key, i),
					SessionID: pick(rngOf(i), "", "s")}
				if _, _, err := k.Memories.Store(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
					spec); err != nil {
					t.Error(err)
				}
				if i%5 == 0 {
					if _, err := k.Memories.Forget(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
						key); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	done := make(chan struct{})
	var around sync.WaitGroup
	for _, work := range []func() error{
		func() error { _, err := k.Step(t.Context()); return err },
		func() error {
			_, err := k.Recall.Recall(t.Context(), k.Admin, ident.DefaultProject,
				recall.Query{Query: "common", Limit: 100})
			return err
		},
	} {
		around.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := work(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	working.Wait()
	close(done)
	around.Wait()
	k.Drain()
	var want []string
	for _, m := range k.ListMemories(memory.Filter{}, 1000) {
		want = append(want, m.Key)
		if got := k.Search(recall.Query{Query: "unique" + m.Key}).Data; len(got) == 0 || got[0].Key != m.Key {
			t.Errorf("%s is not found", m.Key)
		}
	}
	if len(want) < writers*20 {
		t.Fatalf("only %d are left", len(want))
	}
	for w := range writers {
		for i := range 40 {
			key := fmt.Sprintf("w%dk%d", w, i)
			if !slices.Contains(want, key) && k.Holds(ident.DefaultTenant, "unique"+key+"\x00") {
				t.Errorf("%s is forgotten, a block is left", key)
			}
		}
	}
}

// readsOf is a store that records which tenants' keys are read.
type readsOf struct {
	store.Store
	mu    sync.Mutex
	items map[string]int
}

func (c *readsOf) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	r, err := c.Store.Read(ctx, tenant, q)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.items != nil {
		c.items[tenant] += len(r.Keys)
		for _, found := range r.Ranges {
			c.items[tenant] += len(found)
		}
	}
	return r, err
}

// A query reads no other tenant's keys, and costs the same however many tenants there are.
func TestRecallTouchesOneTenant(t *testing.T) {
	cost := map[int]int{}
	for _, tenants := range []int{2, 40} {
		c := &readsOf{Store: memstore.New()}
		k := enginetest.Open(t, c)
		var admins []ident.Caller
		for i := range tenants {
			made, err := k.CreateTenant(t.Context(), ident.Once{}, tenant.Spec{ID: fmt.Sprint("t", i)})
			if err != nil {
				t.Fatal(err)
			}
			admin, err := k.Tenants.Authenticate(t.Context(), made.AdminKey)
			if err != nil {
				t.Fatal(err)
			}
			admins = append(admins, admin)
			k.Admin = admin
			for n := range 100 {
				k.Remember(memory.Spec{Key: fmt.Sprint("m", n), Content: fmt.Sprint("common words and number", n)})
			}
		}
		k.Drain()
		k.Admin = admins[1]
		c.items = map[string]int{}
		if got := k.Found(recall.Query{Query: "common number42", Limit: 1}); len(got) != 1 || got[0] != "m42" {
			t.Fatalf("found %q", got)
		}
		if len(c.items) != 1 || c.items["t1"] == 0 {
			t.Errorf("of %d tenants a query of t1 read %v", tenants, c.items)
		}
		cost[tenants] = c.items["t1"]
	}
	if cost[2] != cost[40] {
		t.Errorf("records read, by tenants: %v", cost)
	}
}
