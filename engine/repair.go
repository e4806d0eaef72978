package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// The approximate size of one commit of CloseNumbered.
const (
	closeAtOnce = 200
	closeBytes  = 1 << 20
)

// Closed counts what CloseNumbered changed.
type Closed struct{ Sessions, Boards, Memories int }

// CloseNumbered ensures that no number is assigned twice in a sealed store that lost acknowledged commits of some
// tenants. What these commits added is unknown, so the next number of each session, board and memory of such a tenant
// may already have been assigned. Sessions and boards are closed: they can be read as before but take nothing new.
// The next version of a memory is set to a number that was never reached.
func CloseNumbered(ctx context.Context, s store.Store, doubtful func(tenant string) bool) (n Closed, err error) {
	s = records.LongValues(s)
	var b store.Batch
	of, size := "", 0
	flush := func() error {
		if len(b.Put) == 0 {
			return nil
		}
		err := s.Commit(ctx, of, b)
		b, size = store.Batch{}, 0
		return err
	}
	err = store.Snapshot(ctx, s, func(tenant string, it store.Item) error {
		if it.Damaged || !doubtful(tenant) {
			return nil // Requests for a damaged record fail, and nothing can be added to it.
		}
		var value []byte
		var err error
		switch records.KindOf(tenant, it.Key) {
		case records.Session:
			value, err = closed(it.Value)
			n.Sessions++
		case records.Board:
			value, err = closed(it.Value)
			n.Boards++
		case records.Memory:
			value, err = memory.SkipVersions(it.Value)
			n.Memories++
		default:
			return nil
		}
		if err != nil || value == nil {
			return err
		}
		if tenant != of || len(b.Put) == closeAtOnce || size > closeBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		key, before := append([]byte(nil), it.Key...), append([]byte(nil), it.Value...)
		b.Expect = append(b.Expect, store.Expect{Key: key, Value: before})
		b.Put = append(b.Put, store.Pair{Key: key, Value: value})
		of, size = tenant, size+len(before)+len(value)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return n, err
}

// closed returns a session's head or a board with the mark that it is closed, or nil if it cannot be decoded.
func closed(value []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil || fields == nil {
		return nil, nil
	}
	fields["closed"] = json.RawMessage("true")
	return json.Marshal(fields)
}

func (n Closed) String() string {
	return fmt.Sprintf("%d sessions and %d boards take no more, and %d memories skip version numbers", n.Sessions,
		n.Boards, n.Memories)
}
