package pgstore

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/pgstore/pgtest"
	"github.com/seed-0906e6bc/mneme/engine/store/storetest"
)

// postgres is the database server of this package's tests.
var postgres = &pgtest.Shared{}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := postgres.Close(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

func openURL(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return s
}

// openEmptied opens a store on a database after dropping its tables, because creating a database takes ten times as
// long as creating the tables.
func openEmptied(t testing.TB, url string) *Store {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	const empty = "DROP SCHEMA public CASCADE; CREATE SCHEMA public"
	if _, err := conn.PgConn().Exec(t.Context(), empty).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return openURL(t, url)
}

// underBoth runs a test over PostgreSQL, and over a database that says it is another, which has the other guard.
func underBoth(t *testing.T, test func(t *testing.T, database func(testing.TB) string)) {
	for _, c := range []struct {
		name     string
		guard    guard
		database func(testing.TB) string
	}{{"locked", locked, postgres.Database}, {"serialized", serialized, postgres.Relative}} {
		t.Run(c.name, func(t *testing.T) {
			s := openURL(t, c.database(t))
			if s.guard != c.guard {
				t.Fatalf("the guard is %d", s.guard)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			test(t, c.database)
		})
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	underBoth(t, func(t *testing.T, database func(testing.TB) string) {
		t.Parallel()
		url := database(t)
		storetest.Run(t, func(t *testing.T) store.Store { return openEmptied(t, url) })
	})
}

func TestSealed(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	storetest.Run(t, func(t *testing.T) store.Store { return store.Seal(openEmptied(t, url)) })
}

// Poolers that give each transaction another connection need one of these. The simple protocol, where one error ends
// all statements of a round trip, is tested under both guards.
func TestWithoutPreparedStatements(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode     string
		database func(testing.TB) string
	}{{"exec", postgres.Database}, {"simple_protocol", postgres.Database}, {"simple_protocol", postgres.Relative}} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			url := c.database(t) + "&default_query_exec_mode=" + c.mode
			storetest.Run(t, func(t *testing.T) store.Store { return openEmptied(t, url) })
		})
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	underBoth(t, func(t *testing.T, database func(testing.TB) string) {
		t.Parallel()
		for seed := range uint64(4) {
			url := database(t)
			storetest.RunDurableModel(t, func(t *testing.T) store.Store { return store.Seal(openURL(t, url)) }, seed, 400)
		}
	})
}

func TestLong(t *testing.T) {
	t.Parallel()
	underBoth(t, func(t *testing.T, database func(testing.TB) string) {
		t.Parallel()
		url := database(t)
		storetest.RunLong(t, func(t *testing.T) store.Store { return openEmptied(t, url) })
		for seed := range uint64(2) {
			url := database(t)
			storetest.RunDurableModel(t, func(t *testing.T) store.Store {
				return store.Long(store.Seal(openURL(t, url)), storetest.LongKeys, storetest.ModelPiece)
			}, seed, 400)
		}
	})
}
