package pgstore

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Read implements store.Store with one statement, which sees one state. Reads of keys alone may share it.
func (s *Store) Read(ctx context.Context, tenant string, q store.Query) (res store.Result, err error) {
	if err := store.CheckTenant(tenant); err != nil {
		return store.Result{}, err
	}
	if err := s.enter(ctx); err != nil {
		return store.Result{}, err
	}
	defer s.leave()
	if len(q.Ranges) == 0 {
		res.Keys, err = s.readKeys(ctx, tenant, q.Keys)
		return res, err
	}
	sql := readStatement(tenant, q)
	err = s.retry(ctx, func() (err error) {
		res, err = s.read(ctx, sql, q)
		return err
	})
	return res, err
}

// beyond returns a value greater than every key.
func beyond() []byte { return bytes.Repeat([]byte{0xff}, store.MaxKey+1) }

// readStatement returns the statement for a query. It numbers the results: 0 for the keys, from 1 for the ranges. Its
// text only depends on the number and kinds of the ranges, so that few texts are ever prepared.
func readStatement(tenant string, q store.Query) *statement {
	s := &statement{}
	of := s.arg("bytea", []byte(tenant))
	union := ""
	if len(q.Keys) > 0 {
		keys := make([][]byte, len(q.Keys))
		for i, key := range q.Keys {
			keys[i] = orEmpty(key)
		}
		s.add("SELECT 0 AS n, k.key, r.value FROM (SELECT ", of, " AS tenant, key FROM unnest(",
			s.arg("bytea[]", keys), ") AS u (key)) AS k, ", lookUp, " AS r")
		union = "\nUNION ALL "
	}
	for i, r := range q.Ranges {
		value, order := "value", ""
		if r.KeysOnly {
			value = "NULL::bytea"
		}
		if r.Reverse {
			order = " DESC"
		}
		to := r.To
		if len(to) == 0 {
			to = beyond()
		}
		var limit *int
		if r.Limit > 0 {
			limit = &r.Limit
		}
		s.add(union, "(SELECT ", s.arg("int", i+1), " AS n, key, ", value,
			" AS value FROM mneme_records WHERE tenant = ", of,
			" AND key >= ", s.arg("bytea", orEmpty(r.From)), " AND key < ", s.arg("bytea", to),
			" ORDER BY key", order, " LIMIT ", s.arg("bigint", limit), ")")
		union = "\nUNION ALL "
	}
	return s
}

func (s *Store) read(ctx context.Context, sql *statement, q store.Query) (store.Result, error) {
	res := store.Result{Keys: make([]store.Item, len(q.Keys)), Ranges: make([][]store.Item, len(q.Ranges))}
	for i, key := range q.Keys {
		res.Keys[i].Key = key
	}
	conn, err := s.acquire(ctx, s.main)
	if err != nil {
		return store.Result{}, err
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(ctx, s.reading)
	defer cancel()
	var (
		n          int
		key, value []byte
		found      = map[string][]byte{}
	)
	err = s.guard.query(ctx, conn, sql.text.String(), sql.args, []any{&n, &key, &value}, func() error {
		if n == 0 {
			found[string(key)] = value
		} else {
			res.Ranges[n-1] = append(res.Ranges[n-1], store.Item{Key: key, Value: value})
		}
		return nil
	})
	if err != nil {
		return store.Result{}, err
	}
	if s.former(linkOf(conn)) {
		return store.Result{}, errFormer
	}
	for i, key := range q.Keys {
		if value, ok := found[string(key)]; ok {
			res.Keys[i].Value = append([]byte{}, value...) // a key may occur twice in the query
		}
	}
	for i, r := range q.Ranges {
		order(res.Ranges[i], r.Reverse)
	}
	return res, nil
}

// order sorts the items of a range. They are already sorted unless the database ran the parts of the union in
// parallel.
func order(items []store.Item, reverse bool) {
	compare := func(a, b store.Item) int { return bytes.Compare(a.Key, b.Key) }
	if reverse {
		compare = func(a, b store.Item) int { return bytes.Compare(b.Key, a.Key) }
	}
	if !slices.IsSortedFunc(items, compare) {
		slices.SortFunc(items, compare)
	}
}

// lookUp is the SQL that finds the value of k.tenant and k.key, if there is one, and lookUpRow where its row is. LIMIT
// keeps the database from joining the tables in another way: a plan that was made while the table was small would read
// much of it after it has grown.
const (
	lookUp    = `LATERAL (SELECT value` + rowOf
	lookUpRow = `LATERAL (SELECT ctid` + rowOf
	rowOf     = ` FROM mneme_records WHERE tenant = k.tenant AND key = k.key LIMIT 1)`
)

// statement collects an SQL text and its arguments.
type statement struct {
	text strings.Builder
	args []any
}

func (s *statement) add(parts ...string) {
	for _, p := range parts {
		s.text.WriteString(p)
	}
}

// arg adds an argument and returns its placeholder.
func (s *statement) arg(sort string, value any) string {
	s.args = append(s.args, value)
	return "$" + strconv.Itoa(len(s.args)) + "::" + sort
}

// orEmpty returns b, or an empty slice if b is nil, because nil would be NULL.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
