package board

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// ValueSpec is a value that a client sets.
type ValueSpec struct {
	Value json.RawMessage `json:"value"` // any JSON, at most 64 KiB
}

// Value is a value that a board stores under a key, as clients see it.
type Value struct {
	Key       string          `json:"key"`
	BoardID   string          `json:"board_id"`
	Value     json.RawMessage `json:"value"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// maxValue is the maximum size of a value in bytes. maxValues is the maximum number of values of one board: an import
// reads all of them.
const (
	maxValue  = 64 << 10
	maxValues = 1024
)

// valueRecord is a value as it is stored.
type valueRecord struct {
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value"`
	Created time.Time       `json:"created_at"`
	Updated time.Time       `json:"updated_at"`
}

func (v *valueRecord) public(b *boardRecord) Value {
	return Value{Key: v.Key, BoardID: b.ID, Value: v.Value, CreatedAt: v.Created, UpdatedAt: v.Updated}
}

func (v *valueRecord) put(t *records.Tx, board ident.Incarnation) error {
	return t.PutJSON(records.BoardValue.Key(board, v.Key), v)
}

// compact returns the value without whitespace between its tokens.
func (s *ValueSpec) compact() (json.RawMessage, error) {
	if len(s.Value) == 0 {
		return nil, fault.InvalidField("value", "required", "must be a JSON value")
	}
	var out bytes.Buffer
	if err := json.Compact(&out, s.Value); err != nil {
		return nil, fault.InvalidField("value", "invalid_value", "must be a JSON value")
	}
	if out.Len() > maxValue {
		return nil, fault.InvalidField("value", "too_long", "must be at most %d bytes", maxValue)
	}
	return out.Bytes(), nil
}

func noValue(b *boardRecord, key string) *fault.Error {
	if !ident.ValidID(key) {
		return fault.Errorf(fault.NotFound, "not_found", "no such value on board %q", b.ID)
	}
	return fault.Errorf(fault.NotFound, "not_found", "no value %q on board %q", key, b.ID)
}

// value reads a value of a board; nil if there is none.
func (svc *Service) value(ctx context.Context, tenant string, b *boardRecord, key string) (*valueRecord, error) {
	if !ident.ValidID(key) {
		return nil, nil
	}
	return records.Get[valueRecord](ctx, svc.db, tenant, records.BoardValue.Key(b.Incarnation, key))
}

// PutValue sets the value under a key of a board. created reports whether there was none before. The first value
// creates the board. It returns invalid_id, required or too_long if the key or the value is invalid, and
// too_many_values if the board has 1,024 of them.
func (svc *Service) PutValue(ctx context.Context, c ident.Caller, id, key string, spec ValueSpec) (out Value,
	created bool, err error) {
	if err := ident.CheckID("key", key); err != nil {
		return out, false, err
	}
	value, err := spec.compact()
	if err != nil {
		return out, false, err
	}
	put := func(t *records.Tx, b *boardRecord) (out Value, err error) {
		v, err := svc.value(ctx, c.Tenant, b, key)
		if err != nil {
			return out, err
		}
		if created = v == nil; created {
			if b.Values >= maxValues {
				return out, fault.Errorf(fault.Conflict, "too_many_values", "a board may have at most %d values",
					maxValues)
			}
			b.Values++
			v = &valueRecord{Key: key, Created: t.Now}
		}
		v.Value, v.Updated = value, t.Now
		return v.public(b), v.put(t, b.Incarnation)
	}
	out, err = change(ctx, svc, c, ident.Once{}, id, orNew, put)
	return out, created, err
}

// GetValue returns the value under a key of a board. It returns not_found if there is none.
func (svc *Service) GetValue(ctx context.Context, c ident.Caller, id, key string) (Value, error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return Value{}, err
	}
	v, err := svc.value(ctx, c.Tenant, b, key)
	if err != nil {
		return Value{}, err
	}
	if v == nil {
		return Value{}, noValue(b, key)
	}
	return v.public(b), nil
}

// ListValues pages through the values of a board, by key. It returns out_of_range for the limit and invalid_cursor for
// the cursor.
func (svc *Service) ListValues(ctx context.Context, c ident.Caller, id string, page records.Page) (records.List[Value],
	error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return records.List[Value]{}, err
	}
	return records.ListPage(ctx, svc.db, c.Tenant, records.BoardValue.Under(b.Incarnation), page,
		func(_ []byte, v *valueRecord) (Value, bool) { return v.public(b), true })
}

// DeleteValue removes the value under a key of a board. It returns not_found if there is none.
func (svc *Service) DeleteValue(ctx context.Context, c ident.Caller, id, key string) error {
	_, err := change(ctx, svc, c, ident.Once{}, id, existing, func(t *records.Tx, b *boardRecord) (struct{}, error) {
		v, err := svc.value(ctx, c.Tenant, b, key)
		if err == nil && v == nil {
			err = noValue(b, key)
		}
		if err != nil {
			return struct{}{}, err
		}
		b.Values--
		t.Delete(records.BoardValue.Key(b.Incarnation, key))
		return struct{}{}, nil
	})
	return err
}

// valueEvents returns the values after a key, as many as a feed returns at a time.
func (svc *Service) valueEvents(ctx context.Context, tenant string, b *boardRecord, behind string) (out []Event,
	err error) {
	all := records.BoardValue.Under(b.Incarnation)
	if behind != "" {
		all.From = append(records.BoardValue.Key(b.Incarnation, behind), 0)
	}
	all.Limit = feedEvents
	for v, err := range records.Each[valueRecord](ctx, svc.db, tenant, all) {
		if err != nil {
			return nil, err
		}
		out = append(out, Event{ID: v.Value.Key, Data: v.Value.public(b)})
	}
	return out, nil
}
