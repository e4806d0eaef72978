package server

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/session"
)

// The parts of the descriptors never exceed the whole, unless that is too small for the minimum of each.
func TestDescriptorsAreDivided(t *testing.T) {
	t.Parallel()
	for _, all := range []int{0, 64, 256, 512, 1024, 4096, 1 << 20} {
		for _, tables := range []int{0, 96, 97, 1000} {
			for _, processors := range []int{1, 2, 64} {
				d := divideDescriptors(all, tables, processors)
				if d.store < 2*tables+64 || d.clients < 16 || d.upstreams < 8 || d.other < 48 {
					t.Errorf("%d with %d tables: %+v", all, tables, d)
				}
				least := d.clients == 16 || d.upstreams == 8
				if sum := d.store + d.clients + d.upstreams + d.other; sum > all && !least {
					t.Errorf("%d with %d tables and %d processors: %+v, %d together", all, tables, processors, d, sum)
				}
			}
		}
	}
	if d := divideDescriptors(1024, 10, 2); d != (descriptors{store: 256, clients: 512, upstreams: 208, other: 48}) {
		t.Errorf("%+v", d)
	}
}

// When the store needs more descriptors, connections that wait for their client are closed.
func TestFewerConnections(t *testing.T) {
	t.Parallel()
	s := start(t, limited(func(l *limits) { l.connections = 32 }))
	for range 20 {
		if status := request(t, s.dial()); status != 200 {
			t.Fatal(status)
		}
	}
	s.s.connections.resize(16)
	if open, shed := s.s.connections.figures(); open > 16 || shed < 4 {
		t.Errorf("%d connections open, %d shed", open, shed)
	}
}

// Whatever finds no descriptor, the client gets the same code, and when it may try again.
func TestTooManyOpenFiles(t *testing.T) {
	t.Parallel()
	for _, err := range []error{syscall.EMFILE, syscall.ENFILE} {
		p := problemOf(fmt.Errorf("spooling: %w", &os.PathError{Op: "open", Path: "x", Err: err}))
		if p.Status != http.StatusServiceUnavailable || p.Code != "too_many_open_files" {
			t.Errorf("%v: %v", err, p)
		}
	}
	s := start(t, appending(func(context.Context, *call[session.TurnRequest]) error { return syscall.EMFILE }))
	a := s.do("POST", turns, body(100), "Authorization", "Bearer agent")
	if p := a.problem(t); p.Code != "too_many_open_files" || a.header.Get("Retry-After") != "1" {
		t.Errorf("%+v, Retry-After %q", p, a.header.Get("Retry-After"))
	}
}

// One tenant's calls to an upstream leave connections for the others, and its imports leave them spools.
func TestTenantsShareDescriptors(t *testing.T) {
	t.Parallel()
	s := start(t, limited(func(l *limits) { l.descriptors = 1024 }))
	d := divideDescriptors(1024, 0, runtime.GOMAXPROCS(0))
	held := 0
	for ; held < 1024; held++ {
		if _, ok := s.s.reserveSocket("loud"); !ok {
			break
		}
	}
	release, ok := s.s.reserveSocket("quiet")
	if held != d.upstreams/2 || !ok {
		t.Errorf("one tenant got %d; another gets one: %v", held, ok)
	}
	release()
	metrics := string(s.do("GET", "/metrics", "").body)
	for _, line := range []string{`mneme_descriptors{use="upstreams"} 0`,
		fmt.Sprintf(`mneme_descriptors_max{use="upstreams"} %d`, d.upstreams),
		`mneme_descriptors_max{use="clients"} 512`, `mneme_descriptors_max{use="store"} 256`} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no line %s in the metrics", line)
		}
	}
	for range 8 {
		if spooled := (&lease{of: s.s.spools, tenant: "default"}); !spooled.grow(1) {
			t.Fatal("no spool")
		}
	}
	wantBusy(t, s.do("POST", "/api/v1/import", "{}", "Authorization", "Bearer tenant_admin"))
}
