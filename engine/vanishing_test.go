package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// interrupted calls a function between two reads.
type interrupted struct {
	store.Store
	after int // number of reads before it
	do    func()
}

func (s *interrupted) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	if s.after--; s.after == -1 {
		s.do()
	}
	return s.Store.Read(ctx, tenant, q)
}

// If a session is deleted and swept, by any server, between the reads of its head and of its messages, it is gone, or
// is the one that was created since: never damaged.
func TestSessionThatVanishesUnderItsReader(t *testing.T) {
	for _, made := range []bool{false, true} {
		for name, read := range map[string]func(k *enginetest.Kit) (int, error){
			"export": func(k *enginetest.Kit) (int, error) {
				f, err := k.Sessions.Export(k.Context(), k.Admin, ident.DefaultProject, "s")
				return len(f.Turns), err
			},
			"messages": func(k *enginetest.Kit) (int, error) {
				l, err := k.Sessions.ListMessages(k.Context(), k.Admin, ident.DefaultProject, "s", records.Page{}, session.MessageOrder{})
				return len(l.Data), err
			},
		} {
			raw := &interrupted{Store: memstore.New(), after: 1 << 30}
			k := enginetest.Open(t, raw)
			k.Post("s", enginetest.User("one"))
			k.Post("s", enginetest.User("two"))
			raw.after, raw.do = 1, func() {
				if err := k.Sessions.Delete(k.Context(), k.Admin, ident.DefaultProject, "s"); err != nil {
					t.Fatal(err)
				}
				k.Drain()
				if made {
					k.Post("s", enginetest.User("again"))
				}
			}
			n, err := read(k)
			if raw.after >= 0 {
				t.Fatalf("%s: it never read twice", name)
			}
			var refused *fault.Error
			switch {
			case made && (err != nil || n != 1):
				t.Errorf("%s of a session made again: %d, %v", name, n, err)
			case !made && (!errors.As(err, &refused) || refused.Kind != fault.NotFound):
				t.Errorf("%s of a session that is gone: %d, %v", name, n, err)
			}
		}
	}
}
