package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

func TestRequestID(t *testing.T) {
	t.Parallel()
	s := start(t)
	for sent, want := range map[string]string{
		"abc.DEF_1:2@3-4":        "abc.DEF_1:2@3-4",
		strings.Repeat("x", 128): strings.Repeat("x", 128),
		strings.Repeat("x", 129): "",
		"two words":              "",
		"line\tbreak":            "",
		"<script>":               "",
		"":                       "",
	} {
		got := s.do("GET", "/healthz", "", "X-Request-Id", sent).header.Get("X-Request-Id")
		if want != "" && got != want || want == "" && !strings.HasPrefix(got, "req_3132333435363738_") {
			t.Errorf("sent %q, got %q", sent, got)
		}
	}
	id := func() string { return s.do("GET", "/nowhere", "").header.Get("X-Request-Id") }
	if first, second := id(), id(); first == second {
		t.Error("two requests with one id")
	}
}

func TestMetricsAndLog(t *testing.T) {
	t.Parallel()
	s := start(t, anyTurn)
	secret := s.key("agent/SECRETTENANT")
	s.do("POST", turns, `{}`, "Authorization", "Bearer agent/SECRETTENANT")
	s.do("POST", turns, `{"secret_field":1}`)
	s.do("GET", "/nowhere?secret=query", "", "X-Agent-Token", "SECRETKEY")
	text := string(s.do("GET", "/metrics", "").body)
	for _, want := range []string{
		`mneme_http_requests_total{method="POST",route="/api/v1/projects/{project}/turns",status="201"} 1`,
		`mneme_http_requests_total{method="POST",route="/api/v1/projects/{project}/turns",status="422"} 1`,
		`mneme_http_requests_total{method="",route="none",status="404"} 1`,
		`mneme_http_request_duration_seconds_bucket{method="POST",route="/api/v1/projects/{project}/turns",le="+Inf"} 2`,
		`mneme_http_request_duration_seconds_count{method="POST",route="/api/v1/projects/{project}/turns"} 2`,
		`mneme_http_requests_in_flight 1`,
		`mneme_build_info{version="test"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	for _, family := range []string{"go_goroutines", "go_memstats_heap_inuse_bytes", "process_start_time_seconds"} {
		if !strings.Contains(text, "\n"+family+" ") {
			t.Errorf("no %s", family)
		}
	}
	log := s.log.String()
	for _, never := range []string{secret, "SECRETKEY", "secret_field", "secret=query"} {
		if strings.Contains(log, never) {
			t.Errorf("the log has %q", never)
		}
	}
	if !strings.Contains(log, `"level":"INFO","msg":"request"`) ||
		!strings.Contains(log, `"tenant":"SECRETTENANT","key":"`+strings.Split(secret, "_")[1]+`"`) ||
		!strings.Contains(log, `"path":"/nowhere","status":404`) {
		t.Errorf("log:\n%s", log)
	}
}

// Every request is counted, so counting must not allocate.
func TestCountingAllocatesNothing(t *testing.T) {
	r := newMetrics("test").route("GET", "/healthz")
	r.observe(http.StatusOK, time.Millisecond)
	if n := testing.AllocsPerRun(100, func() { r.observe(http.StatusOK, time.Millisecond) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// brokenStore fails to read once it is down.
type brokenStore struct {
	store.Store
	down atomic.Bool
}

func (b *brokenStore) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	if b.down.Load() {
		return store.Result{}, errors.New("secret words")
	}
	return b.Store.Read(ctx, tenant, q)
}

func TestReady(t *testing.T) {
	t.Parallel()
	broken := &brokenStore{Store: memstore.New()}
	s := start(t, func(o *setup) { o.store = broken })
	if a := s.do("GET", "/readyz", "", "Authorization", ""); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	broken.down.Store(true)
	a := s.do("GET", "/readyz", "")
	if p := a.problem(t); p.Status != 503 || p.Code != "not_ready" || strings.Contains(string(a.body), "secret") {
		t.Errorf("%+v", p)
	}
	if !strings.Contains(s.log.String(), "secret words") {
		t.Error("why is not in the log")
	}
	a = s.do("GET", "/api/v1/projects", "")
	if p := a.problem(t); p.Status != 500 || p.Code != "internal" || strings.Contains(string(a.body), "secret") {
		t.Errorf("%+v", p)
	}
}
