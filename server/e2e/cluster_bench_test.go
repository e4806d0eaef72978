package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
)

// BenchmarkServers sends the same turns and the same requests for windows to one server over the embedded store, and to
// one, two and three servers over one PostgreSQL, in alternating rounds. It logs the processor time of an operation, in
// the servers and in PostgreSQL, and its ratio to that of the embedded store. The clients' time is not counted.
func BenchmarkServers(b *testing.B) {
	const clients, sessions, round = 16, 64, 400
	b.ReportMetric(0, "ns/op")
	if b.N < round {
		return // the testing package's trial run
	}
	if runtime.GOOS != "linux" {
		b.Skip("only Linux tells the processor time of other processes")
	}
	binary, err := mneme.build()
	if err != nil {
		b.Fatal(err)
	}
	embedded, err := launch(binary, filepath.Join(b.TempDir(), "embedded"), "--store", "")
	if err != nil {
		b.Fatal(err)
	}
	defer embedded.kill()
	database := postgresql.Cluster(b)
	many := newCluster(b, database, postgresql.Database(b), 3)
	own := []client{embedded.client(b)}
	over := []client{many.at(0), many.at(1), many.at(2)}
	var pids []int
	for _, n := range many.nodes {
		pids = append(pids, n.now.Load().cmd.Process.Pid)
	}
	subjects := []struct {
		name string
		at   []client
		pids []int
	}{{"embedded", own, []int{embedded.cmd.Process.Pid}}, {"PostgreSQL, 1 server", over[:1], pids[:1]},
		{"PostgreSQL, 2 servers", over[:2], pids[:2]}, {"PostgreSQL, 3 servers", over, pids}}
	spent := func(servers []int) processorTime {
		processes, ended, err := database.Processes()
		if err != nil {
			b.Fatal(err)
		}
		return processorTime{benchtest.ProcessorTimeOf(servers...), benchtest.ProcessorTimeOf(processes...) + ended}
	}

	name := func(n int64) string { return fmt.Sprint("s", n%sessions) }
	turn := func(n int64) object {
		text := fmt.Sprintf("turn %d asks for the tide table of the harbour, and what the wind does there", n)
		return object{"session_id": name(n), "messages": []object{user(text),
			calling("c", "tides", `{"harbour":"north"}`),
			result("c", strings.Repeat("high water at seven, low water at one; ", 10)),
			assistant("The tide turns at one.")}}
	}
	works := []struct {
		name, path string
		status     int
		body       func(n int64) object
	}{
		{"turns", "/api/v1/projects/default/turns", http.StatusCreated, turn},
		{"windows", "/api/v1/projects/default/context", http.StatusOK,
			func(n int64) object { return object{"session_id": name(n)} }},
	}
	for _, all := range [][]client{own, over[:1]} { // sessions for the windows
		for n := range int64(sessions * 13) {
			all[0].post(works[0].path, turn(n)).want(http.StatusCreated)
		}
	}
	var next atomic.Int64
	rows := make([]string, len(subjects))
	for _, work := range works {
		used := make([][]processorTime, len(subjects)) // for each operation and round
		for done := 0; done < b.N; done += round {
			for i, subject := range subjects {
				before := spent(subject.pids)
				benchtest.Share(b, clients, round, func() error {
					n := next.Add(1)
					r, err := subject.at[n%int64(len(subject.at))].try("POST", work.path, work.body(n))
					if err == nil && r.status != work.status {
						err = fmt.Errorf("%d %s", r.status, r.body)
					}
					return err
				})
				after := spent(subject.pids)
				used[i] = append(used[i], processorTime{(after.servers - before.servers) / round,
					(after.database - before.database) / round})
			}
		}
		for i := range subjects {
			rows[i] += cells(used[i], used[0], i > 0)
		}
	}
	table := "\n| | turn: Mneme | PostgreSQL | both, of embedded | window: Mneme | PostgreSQL | both, of embedded |\n" +
		"|---|---|---|---|---|---|---|\n"
	for i, subject := range subjects {
		table += "| " + subject.name + rows[i] + " |\n"
	}
	b.Log(table)
}

// processorTime is the processor time of servers and their database.
type processorTime struct{ servers, database time.Duration }

// cells returns the medians of a subject's rounds, and of its ratios to the embedded store with their range. The
// database's time counts only for subjects that use it.
func cells(used, embedded []processorTime, over bool) string {
	median := func(of func(i int) float64) (middle, least, most float64) {
		all := make([]float64, len(used))
		for i := range used {
			all[i] = of(i)
		}
		slices.Sort(all)
		return all[len(all)/2], all[0], all[len(all)-1]
	}
	servers, _, _ := median(func(i int) float64 { return float64(used[i].servers.Microseconds()) })
	if !over {
		return fmt.Sprintf(" | %.0f µs | | 1", servers)
	}
	database, _, _ := median(func(i int) float64 { return float64(used[i].database.Microseconds()) })
	ratio, least, most := median(func(i int) float64 {
		return float64(used[i].servers+used[i].database) / float64(embedded[i].servers)
	})
	return fmt.Sprintf(" | %.0f µs | %.0f µs | %.1f (%.1f–%.1f)", servers, database, ratio, least, most)
}
