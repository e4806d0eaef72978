package window_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// kept is all that a store held at a time.
type kept map[string]map[string][]byte // values by tenant and key

func keep(t *testing.T, s store.Store) kept {
	t.Helper()
	all := kept{}
	err := store.Snapshot(t.Context(), s, func(tenant string, it store.Item) error {
		if all[tenant] == nil {
			all[tenant] = map[string][]byte{}
		}
		all[tenant][string(it.Key)] = bytes.Clone(it.Value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// goBack makes a store hold what was kept, as a failover does to a standby that lacks the newest commits.
func goBack(t *testing.T, s store.Store, to kept) {
	t.Helper()
	commit := func(tenant string, b store.Batch) {
		if err := s.Commit(context.Background(), tenant, b); err != nil {
			t.Fatal(err)
		}
	}
	for tenant, now := range keep(t, s) {
		for key, value := range now {
			switch was, ok := to[tenant][key]; {
			case !ok:
				commit(tenant, store.Batch{Delete: [][]byte{[]byte(key)}})
			case !bytes.Equal(was, value):
				commit(tenant, store.Batch{Put: []store.Pair{{Key: []byte(key), Value: was}}})
			}
		}
	}
}

// TestStoreThatWentBack has the store lose turns of which an engine has views in memory, and get others: fewer, as
// many, and more, in turns and in messages. The engine shows what the store holds.
func TestStoreThatWentBack(t *testing.T) {
	for lost := 1; lost <= 3; lost += 2 {
		for _, added := range []int{0, 1, 3, 4} {
			for _, messages := range []int{1, 3} {
				t.Run(fmt.Sprintf("%d lost, %d of %d messages added", lost, added, messages), func(t *testing.T) {
					k := enginetest.New(t)
					k.Post("s", enginetest.User("first"))
					request := `{"session_id":"s","budget":{"max_messages":100,"max_tokens":0}}`
					k.Ask("%s", request)
					before := keep(t, k.Store)
					for i := range lost {
						k.Post("s", enginetest.User(fmt.Sprint("lost ", i)), enginetest.Assistant("lost answer"))
					}
					k.Ask("%s", request)
					goBack(t, k.Store, before)
					other := enginetest.Open(t, k.Store) // another server, so that the first one hears of nothing
					for i := range added {
						var turn []string
						for j := range messages {
							turn = append(turn, enginetest.User(fmt.Sprint("added ", i, " ", j)))
						}
						other.Post("s", turn...)
					}
					got := k.Ask("%s", request).Messages
					if want := 1 + added*messages; len(got) != want {
						t.Fatalf("%d messages: %s", len(got), got)
					}
					for i, m := range got {
						if bytes.Contains(m, []byte("lost")) {
							t.Errorf("message %d is %s", i, m)
						}
					}
				})
			}
		}
	}
}
