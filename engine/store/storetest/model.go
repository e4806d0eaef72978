package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// RunModel runs random operations on a new store and on memstore and compares the answers. A failure prints the seed
// and every operation up to it.
func RunModel(t *testing.T, open func(*testing.T) store.Store, seed uint64, steps int) {
	t.Helper()
	newModel(t, open, seed).run(steps, false)
}

// RunDurableModel is RunModel for a durable store: from time to time it closes the store and opens it again. Every
// call of open opens the same store.
func RunDurableModel(t *testing.T, open func(*testing.T) store.Store, seed uint64, steps int) {
	t.Helper()
	newModel(t, open, seed).run(steps, true)
}

type model struct {
	t         *testing.T
	open      func(*testing.T) store.Store
	seed      uint64
	random    *rand.Rand
	real, own store.Store
	history   []string
}

func newModel(t *testing.T, open func(*testing.T) store.Store, seed uint64) *model {
	return &model{t: t, open: open, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), own: memstore.New()}
}

func (m *model) run(steps int, durable bool) {
	m.t.Helper()
	m.real = m.open(m.t)
	defer func() {
		if err := m.real.Close(); err != nil {
			m.t.Errorf("Close: %v", err)
		}
	}()
	for range steps {
		switch n := m.random.IntN(100); {
		case n < 55:
			tenant := m.tenant()
			m.commit(tenant, m.batch(tenant))
		case n == 55 && durable:
			m.history = append(m.history, "reopen")
			if err := m.real.Close(); err != nil {
				m.fail("Close: %v", err)
			}
			m.real = m.open(m.t)
		default:
			m.read(m.tenant(), m.query())
		}
	}
	for _, tenant := range modelTenants {
		m.read(tenant, store.Query{Ranges: []store.Range{{}, {Reverse: true}}})
	}
	m.walk()
}

// walk compares the complete content of both stores: no removed record may be left.
func (m *model) walk() {
	m.t.Helper()
	got, want := walk(m.t, m.real), walk(m.t, m.own)
	if !reflect.DeepEqual(got, want) {
		m.fail("a walk shows %+v\nwant %+v", got, want)
	}
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("seed %d, after\n%s\n%s", m.seed, strings.Join(m.history, "\n"), fmt.Sprintf(format, args...))
}

func (m *model) commit(tenant string, batch store.Batch) {
	m.t.Helper()
	m.history = append(m.history, describe(tenant, batch))
	got, want := m.real.Commit(m.t.Context(), tenant, batch), m.own.Commit(m.t.Context(), tenant, batch)
	if !sameError(got, want) {
		m.fail("Commit answers %v, want %v", got, want)
	}
}

func sameError(got, want error) bool {
	var g, w *store.ConflictError
	if errors.As(want, &w) {
		return errors.As(got, &g) && *g == *w
	}
	return errors.Is(got, want)
}

func (m *model) read(tenant string, q store.Query) {
	m.t.Helper()
	line := fmt.Sprintf("read %q keys %q", tenant, q.Keys)
	for _, r := range q.Ranges {
		line += fmt.Sprintf(" range %q to %q reverse %t keys only %t limit %d", r.From, r.To, r.Reverse, r.KeysOnly, r.Limit)
	}
	m.history = append(m.history, line)
	got, err := m.real.Read(m.t.Context(), tenant, q)
	if err != nil {
		m.fail("Read: %v", err)
	}
	want, err := m.own.Read(m.t.Context(), tenant, q)
	if err != nil {
		m.fail("memstore: %v", err)
	}
	if len(got.Keys) != len(want.Keys) || len(got.Ranges) != len(want.Ranges) {
		m.fail("Read answers %d keys and %d ranges", len(got.Keys), len(got.Ranges))
	}
	m.same("keys", got.Keys, want.Keys)
	for i := range want.Ranges {
		m.same(fmt.Sprintf("range %d", i), got.Ranges[i], want.Ranges[i])
	}
}

func (m *model) same(what string, got, want []store.Item) {
	m.t.Helper()
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		m.fail("%s\nread %+v\nwant %+v", what, got, want)
	}
}

func describe(tenant string, batch store.Batch) string {
	line := fmt.Sprintf("commit %q", tenant)
	for _, e := range batch.Expect {
		if e.Value == nil {
			line += fmt.Sprintf(" expect no %q", e.Key)
		} else {
			line += fmt.Sprintf(" expect %q=%q", e.Key, e.Value)
		}
	}
	for _, p := range batch.Put {
		line += fmt.Sprintf(" put %q=%q", p.Key, p.Value)
	}
	for _, key := range batch.Delete {
		line += fmt.Sprintf(" delete %q", key)
	}
	return line
}

// Few names and few bytes, so that operations collide.
var modelTenants = [...]string{"", "a", "a\x00", "ab"}

func (m *model) tenant() string { return modelTenants[m.random.IntN(len(modelTenants))] }

func (m *model) key(first string) []byte {
	const letters = "\x00ayz{\xff"
	key := []byte{first[m.random.IntN(len(first))]}
	for range m.random.IntN(3) {
		key = append(key, letters[m.random.IntN(len(letters))])
	}
	return key
}

func (m *model) anyKey() []byte { return m.key("\x00ayz{\xff") }

func (m *model) value() []byte {
	v := make([]byte, m.random.IntN(4))
	if m.random.IntN(4) == 0 {
		v = make([]byte, ModelPiece-2+m.random.IntN(4*ModelPiece))
	}
	for i := range v {
		v[i] = byte('0' + m.random.IntN(3))
	}
	return v
}

func (m *model) batch(tenant string) store.Batch {
	first := "\x00ay{\xff"
	switch n := m.random.IntN(20); {
	case n < 6:
		first = "z"
	case n == 6:
		first += "z" // sometimes mixed
	}
	var batch store.Batch
	for range m.random.IntN(3) {
		e := store.Expect{Key: m.key(first)}
		switch m.random.IntN(4) {
		case 0:
		case 1:
			e.Value = m.value()
		default: // The stored value, so that preconditions often hold.
			res, err := m.own.Read(m.t.Context(), tenant, store.Query{Keys: [][]byte{e.Key}})
			if err != nil {
				m.fail("memstore: %v", err)
			}
			e.Value = res.Keys[0].Value
		}
		batch.Expect = append(batch.Expect, e)
	}
	for range m.random.IntN(5) {
		batch.Put = append(batch.Put, store.Pair{Key: m.key(first), Value: m.value()})
	}
	for range m.random.IntN(3) {
		batch.Delete = append(batch.Delete, m.key(first))
	}
	return batch
}

func (m *model) query() store.Query {
	var q store.Query
	for range m.random.IntN(4) {
		q.Keys = append(q.Keys, m.anyKey())
	}
	for range m.random.IntN(4) {
		r := store.Range{Reverse: m.random.IntN(2) == 0, KeysOnly: m.random.IntN(4) == 0, Limit: m.random.IntN(6)}
		if m.random.IntN(4) > 0 {
			r.From = m.anyKey()
		}
		if m.random.IntN(4) > 0 {
			r.To = m.anyKey()
		}
		q.Ranges = append(q.Ranges, r)
	}
	return q
}
