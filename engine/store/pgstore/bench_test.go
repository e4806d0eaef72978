package pgstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/pgstore/pgtest"
)

func benchValue(n int) []byte {
	random := rand.New(rand.NewPCG(1, 1))
	v := make([]byte, n)
	for i := range v {
		v[i] = byte(random.Uint32())
	}
	return v
}

// rawTable creates a table like the store's in the same database, for plain SQL.
func rawTable(b *testing.B, url string) *pgxpool.Pool {
	b.Helper()
	raw, err := pgxpool.New(b.Context(), fmt.Sprintf("%s&pool_max_conns=%d", url, DefaultConns))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(raw.Close)
	const table = `CREATE TABLE raw (tenant bytea NOT NULL, key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (tenant, key))`
	if _, err := raw.Exec(b.Context(), table); err != nil {
		b.Fatal(err)
	}
	return raw
}

const rawInsert = `INSERT INTO raw (tenant, key, value) VALUES ($1, $2, $3)`

// BenchmarkAppend compares durable 1 KB appends with single inserts into such a table. A turn also expects two
// records that all writers share and replaces one of its own.
func BenchmarkAppend(b *testing.B) {
	value := benchValue(1 << 10)
	for _, sort := range []string{"put", "turn"} {
		for _, writers := range []int{1, 8, 64} {
			b.Run(fmt.Sprint(sort, "/", writers, "-writers"), func(b *testing.B) {
				url := postgres.Database(b)
				s := openURL(b, url)
				defer s.Close()
				raw := rawTable(b, url)
				mustCommit(b, s, store.Batch{Put: put("live", "1", "project", "1")})
				var next atomic.Int64
				m := benchtest.Compare(b, 32*writers, func(n int) {
					benchtest.Share(b, writers, n, func() error {
						n := next.Add(1)
						batch := store.Batch{Put: []store.Pair{{Key: fmt.Appendf(nil, "m%012d", n), Value: value}}}
						if sort == "turn" {
							batch.Expect = append(holds("live", "1"), holds("project", "1")...)
							batch.Put = append(batch.Put, put(fmt.Sprint("h", n%1000), fmt.Sprint(n))...)
						}
						return s.Commit(b.Context(), "acme", batch)
					})
				}, func(n int) {
					benchtest.Share(b, writers, n, func() error {
						_, err := raw.Exec(b.Context(), rawInsert, []byte("acme"), fmt.Appendf(nil, "m%012d", next.Add(1)), value)
						return err
					})
				})
				b.ReportMetric(1/m.Subject.Seconds(), "appends/s")
				b.ReportMetric(1/m.Baseline.Seconds(), "raw/s")
				b.ReportMetric(1/m.Ratio, "of-raw")
			})
		}
	}
}

// BenchmarkFold tells the processor time of PostgreSQL, and of this process with its clients, for commits like those of
// turns: three expectations, six puts. Each commit has a transaction of its own, or shares it. Rounds alternate.
func BenchmarkFold(b *testing.B) {
	const round = 200
	value := benchValue(300)
	cluster := postgres.Cluster(b)
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprint(clients, "-clients"), func(b *testing.B) {
			url := postgres.Database(b)
			stores := map[string]*Store{"alone": openURL(b, url), "shared": openURL(b, url)}
			stores["alone"].commits.together = func([]*attempt) int { return 1 }
			stores["alone"].commits.usual, stores["alone"].commits.most = 12, 12
			mustCommit(b, stores["alone"], store.Batch{Put: put("live", "1", "project", "1", "key", "1")})
			var next atomic.Int64
			used := map[string][]time.Duration{}
			for done := 0; done < b.N; done += round {
				for _, name := range []string{"alone", "shared"} {
					s := stores[name]
					defer s.Close()
					before, own := databaseTime(b, cluster), benchtest.ProcessorTime()
					benchtest.Share(b, clients, round, func() error {
						n := next.Add(1)
						batch := store.Batch{Expect: append(append(holds("live", "1"), holds("project", "1")...), holds("key", "1")...)}
						for i := range 6 {
							batch.Put = append(batch.Put, store.Pair{Key: fmt.Appendf(nil, "m%012d/%d", n, i), Value: value})
						}
						return s.Commit(b.Context(), "acme", batch)
					})
					used[name] = append(used[name], databaseTime(b, cluster)-before)
					used["own "+name] = append(used["own "+name], benchtest.ProcessorTime()-own)
				}
			}
			for name, all := range used {
				slices.Sort(all)
				b.ReportMetric(float64(all[len(all)/2].Microseconds())/round, strings.ReplaceAll(name, " ", "-")+"-µs")
			}
			c := &stores["shared"].count
			b.ReportMetric(float64(c.commits.Load())/float64(c.folds.Load()), "commits/transaction")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// databaseTime is the processor time that a database server has used.
func databaseTime(b *testing.B, c *pgtest.Cluster) time.Duration {
	b.Helper()
	processes, ended, err := c.Processes()
	if err != nil {
		b.Fatal(err)
	}
	return benchtest.ProcessorTimeOf(processes...) + ended
}

// BenchmarkNewest compares reading the newest 50 of 100,000 pairs of 300 bytes with the same read in plain SQL.
func BenchmarkNewest(b *testing.B) {
	const pairs, each = 100_000, 5_000
	url := postgres.Database(b)
	s := openURL(b, url)
	defer s.Close()
	raw := rawTable(b, url)
	value := benchValue(300)
	for i := 0; i < pairs; i += each {
		var batch store.Batch
		for j := range each {
			batch.Put = append(batch.Put, store.Pair{Key: fmt.Appendf(nil, "m%08d", i+j), Value: value})
		}
		mustCommit(b, s, batch)
	}
	for _, sql := range []string{"INSERT INTO raw SELECT tenant, key, value FROM mneme_records", "VACUUM ANALYZE"} {
		if _, err := raw.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	const newest = `SELECT key, value FROM raw WHERE tenant = $1 AND key < $2 ORDER BY key DESC LIMIT 50`
	at := func(i int) []byte { return fmt.Appendf(nil, "m%08d", 50+i*7919%(pairs-50)) }
	var n atomic.Int64
	m := benchtest.Compare(b, 200, func(times int) {
		for range times {
			q := store.Query{Ranges: []store.Range{{From: []byte("m"), To: at(int(n.Add(1))), Reverse: true, Limit: 50}}}
			if res, err := s.Read(b.Context(), "acme", q); err != nil || len(res.Ranges[0]) != 50 {
				b.Fatal("missing items", err)
			}
		}
	}, func(times int) {
		for range times {
			rows, err := raw.Query(b.Context(), newest, []byte("acme"), at(int(n.Add(1))))
			if err != nil {
				b.Fatal(err)
			}
			found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Key, Value []byte }])
			if err != nil || len(found) != 50 {
				b.Fatal("missing items", err)
			}
		}
	})
	b.ReportMetric(float64(m.Subject.Microseconds()), "µs/read")
	b.ReportMetric(float64(m.Baseline.Microseconds()), "raw-µs/read")
	b.ReportMetric(m.Ratio, "times-raw")
}
