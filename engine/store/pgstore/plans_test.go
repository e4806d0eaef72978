package pgstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// TestPlans looks at the plans that PostgreSQL makes and keeps while the table is empty. Each finds rows by their whole
// key, or by the bounds of a range in the order of keys, so it is as good when the table has grown.
func TestPlans(t *testing.T) {
	s := openURL(t, postgres.Database(t))
	defer s.Close()
	conn, err := s.main.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	ranges := readStatement("acme", store.Query{Keys: [][]byte{b("k")}, Ranges: []store.Range{{From: b("a"), Limit: 2},
		{From: b("a"), Reverse: true}}})
	for i, c := range []struct {
		name, sql string
		args      int
		finds     int // how often the plan looks for rows
	}{
		{"check", checkExpected, 3, 1},
		{"find what is broken", findBroken, 3, 1},
		{"delete", deleteRecords, 2, 1},
		{"put", putRecords, 3, 0},
		{"read keys", findKeys, 2, 1},
		{"read keys and ranges", ranges.text.String(), len(ranges.args), 3},
	} {
		args := strings.TrimSuffix(strings.Repeat("'{}', ", c.args), ", ")
		if c.args == len(ranges.args) {
			args = "'acme', '{}', 1, 'a', 'b', 2, 2, 'a', 'b', NULL"
		}
		if _, err := conn.Exec(t.Context(), fmt.Sprintf("PREPARE plan%d AS %s", i, c.sql)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		rows, err := conn.Query(t.Context(), fmt.Sprintf("EXPLAIN EXECUTE plan%d (%s)", i, args))
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		plan := strings.Join(lines, "\n")
		whole := strings.Count(plan, "Index Cond: ((tenant = ") // and the key
		if whole != c.finds || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Bitmap") ||
			strings.Contains(plan, "Sort") {
			t.Errorf("%s looks %d times for rows by tenant and key, want %d:\n%s", c.name, whole, c.finds, plan)
		}
	}
}
