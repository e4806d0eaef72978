package pgstore

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// TestServersSetUpTogether opens one empty database from many servers at once.
func TestServersSetUpTogether(t *testing.T) {
	for range 5 {
		url := postgres.Database(t)
		var opening sync.WaitGroup
		for i := range 6 {
			opening.Go(func() {
				s, err := Open(t.Context(), Options{URL: url})
				if err != nil {
					t.Errorf("Open: %v", err)
					return
				}
				defer s.Close()
				mustCommit(t, s, store.Batch{Put: put(fmt.Sprint(i), "v")})
			})
		}
		opening.Wait()
	}
}

// TestSchemaVersions opens the tables of an older and a newer program: nothing is lost or changed.
func TestSchemaVersions(t *testing.T) {
	url := postgres.Database(t)
	s := openURL(t, url)
	defer s.Close()
	mustCommit(t, s, store.Batch{Put: put("k", "v")})
	again := openURL(t, url)
	if got := read(t, again, "k")[0]; got != "v" {
		t.Errorf("%q is there after a second opening", got)
	}
	again.Close()
	if _, err := s.main.Exec(t.Context(), "INSERT INTO mneme_schema VALUES ($1)", schemaVersion+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{URL: url}); !errors.Is(err, ErrNewerSchema) {
		t.Errorf("Open: %v", err)
	}
}

// TestMigration opens the tables of version 2 with several servers at once. The records stay, tokens work, and a server
// of the older program can no longer commit.
func TestMigration(t *testing.T) {
	url := postgres.Database(t)
	s := openURL(t, url)
	mustCommit(t, s, store.Batch{Put: put("k", "v")})
	for _, sql := range []string{"DROP TABLE mneme_commits", "UPDATE mneme_schema SET version = 2",
		"CREATE TABLE mneme_commits (tenant bytea NOT NULL, token bytea NOT NULL, burnt boolean NOT NULL, " +
			"made timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (tenant, token))",
		"CREATE INDEX mneme_commits_made ON mneme_commits (made)",
		"INSERT INTO mneme_commits (tenant, token, burnt) VALUES ('acme', 'token', false)"} {
		if _, err := s.main.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	var opening sync.WaitGroup
	for i := range 4 {
		opening.Go(func() {
			s, err := Open(t.Context(), Options{URL: url})
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			defer s.Close()
			mustCommit(t, s, store.Batch{Expect: holds("k", "v"), Put: put(fmt.Sprint(i), "v")})
		})
	}
	opening.Wait()
	s = openURL(t, url)
	defer s.Close()
	var version, tokens int
	const ask = "SELECT (SELECT max(version) FROM mneme_schema), (SELECT count(*) FROM mneme_commits)"
	if err := s.main.QueryRow(t.Context(), ask).Scan(&version, &tokens); err != nil {
		t.Fatal(err)
	}
	if version != schemaVersion || tokens != 4 {
		t.Errorf("version %d with %d tokens, want version %d with 4", version, tokens, schemaVersion)
	}
	const old = "INSERT INTO mneme_commits (tenant, token, burnt) VALUES ('acme', 'token', false)"
	if _, err := s.main.Exec(t.Context(), old); err == nil {
		t.Error("a server of version 2 can still commit")
	}
}

// TestTokensAreForgotten keeps young tokens and removes old ones.
func TestTokensAreForgotten(t *testing.T) {
	s := openURL(t, postgres.Database(t))
	defer s.Close()
	mustCommit(t, s, store.Batch{Put: put("k", "v")})
	mustCommit(t, s, store.Batch{Put: put("l", "v")})
	mustCommit(t, s, store.Batch{Put: put("z", "v")}) // a loose commit has none
	tokens := func() (n int) {
		if err := s.main.QueryRow(t.Context(), "SELECT count(*) FROM mneme_commits").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct {
		age  time.Duration
		left int
	}{{tokenLife, 2}, {-time.Second, 0}} {
		if err := s.forgetTokensOver(t.Context(), c.age); err != nil {
			t.Fatal(err)
		}
		if n := tokens(); n != c.left {
			t.Errorf("%d tokens after those over %v went, want %d", n, c.age, c.left)
		}
	}
}

// TestSnapshot reads everything while it changes: the result is of one instant, in order.
func TestSnapshot(t *testing.T) {
	s := openURL(t, postgres.Database(t))
	defer s.Close()
	const pairs = snapshotPageSize + 500
	var want []string
	for _, tenant := range []string{"", "\x00", "a", "ab", "\xff"} {
		for from := 0; from < pairs; from += 500 {
			var batch store.Batch
			for i := from; i < from+500; i++ {
				batch.Put = append(batch.Put, put(fmt.Sprintf("k%06d", i), "0")...)
			}
			if err := s.Commit(t.Context(), tenant, batch); err != nil {
				t.Fatal(err)
			}
		}
		for i := range pairs {
			want = append(want, fmt.Sprintf("%q k%06d", tenant, i))
		}
	}
	var got []string
	err := s.Snapshot(t.Context(), func(tenant string, it store.Item) error {
		if len(got) == 0 { // everything changes during the walk
			if _, err := s.main.Exec(t.Context(), "UPDATE mneme_records SET value = '1'"); err != nil {
				t.Error(err)
			}
		}
		if string(it.Value) != "0" {
			t.Errorf("%q holds %q", it.Key, it.Value)
		}
		got = append(got, fmt.Sprintf("%q %s", tenant, it.Key))
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d records of %d, error %v", len(got), len(want), err)
	}
}
