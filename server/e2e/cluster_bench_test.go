package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
)

// BenchmarkServers sends the same turns and the same requests for windows to one server over the embedded store, and to
// one, two and three servers over one PostgreSQL, in alternating rounds, and logs how much each does of what the
// embedded store does. All of it, the clients too, shares one machine's processors.
func BenchmarkServers(b *testing.B) {
	const clients, sessions, round = 16, 64, 400
	b.ReportMetric(0, "ns/op")
	if b.N < round {
		return // the testing package's own first look
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
	many := newCluster(b, postgresql.Cluster(b), postgresql.Database(b), 3)
	own := []client{embedded.client(b)}
	over := []client{many.at(0), many.at(1), many.at(2)}
	subjects := []struct {
		name string
		at   []client
	}{{"embedded", own}, {"PostgreSQL, 1 server", over[:1]}, {"PostgreSQL, 2 servers", over[:2]},
		{"PostgreSQL, 3 servers", over}}

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
	for _, all := range [][]client{own, over[:1]} { // sessions that every window finds
		for n := range int64(sessions * 13) {
			all[0].post(works[0].path, turn(n)).want(http.StatusCreated)
		}
	}
	var next atomic.Int64
	table := "\n| | turns | windows |\n|---|---|---|\n"
	cells := make([][]string, len(subjects))
	for _, work := range works {
		rates := make([][]float64, len(subjects)) // operations a second, round by round
		ratios := make([][]float64, len(subjects))
		for done := 0; done < b.N; done += round {
			for i, subject := range subjects {
				start := time.Now()
				benchtest.Share(b, clients, round, func() error {
					n := next.Add(1)
					r, err := subject.at[n%int64(len(subject.at))].try("POST", work.path, work.body(n))
					if err == nil && r.status != work.status {
						err = fmt.Errorf("%d %s", r.status, r.body)
					}
					return err
				})
				rates[i] = append(rates[i], round/time.Since(start).Seconds())
				ratios[i] = append(ratios[i], rates[i][len(rates[i])-1]/rates[0][len(rates[i])-1])
			}
		}
		for i := range subjects {
			slices.Sort(rates[i])
			slices.Sort(ratios[i])
			middle, last := len(ratios[i])/2, len(ratios[i])-1
			cells[i] = append(cells[i], fmt.Sprintf("%.2f (%.2f–%.2f), %.0f/s", ratios[i][middle], ratios[i][0],
				ratios[i][last],
				rates[i][middle]))
		}
	}
	for i, subject := range subjects {
		table += "| " + subject.name + " | " + strings.Join(cells[i], " | ") + " |\n"
	}
	b.Log(table)
}
