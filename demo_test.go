package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/demo"
)

// shown returns what the demo shows: every list that a user would look at, without values that depend on the clock or
// on random ids.
func (p *program) shown() string {
	p.t.Helper()
	var out strings.Builder
	for _, path := range []string{"projects/demo", "projects/demo/settings", "projects/demo/sessions?limit=1000",
		"projects/demo/sessions/order-17-help/messages?limit=1000", "projects/demo/decisions?limit=1000",
		"projects/demo/memories?limit=1000", "projects/demo/memories/tour-date/history", "policies/latest-only", "boards",
		"boards/shop-floor/memory?limit=100", "boards/shop-floor/agents", "boards/shop-floor/values"} {
		a := p.do(p.key, "GET", "/api/v1/"+path, "")
		if a.status != 200 {
			p.t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		fmt.Fprintf(&out, "%s %s\n", path, a.body)
	}
	return out.String()
}

// fates counts what happened to messages, by whom and why, in the decisions of the demo.
func (p *program) fates() map[string]int {
	p.t.Helper()
	fates := map[string]int{}
	var list struct {
		Data []struct {
			ID string `json:"decision_id"`
		}
	}
	if err := json.Unmarshal(p.do(p.key, "GET", "/api/v1/projects/demo/decisions?limit=1000", "").body, &list); err != nil {
		p.t.Fatal(err)
	}
	for _, d := range list.Data {
		var decision struct {
			Report []struct {
				Action, Policy string
				Reason         string `json:"reason_code"`
			}
		}
		if err := json.Unmarshal(p.do(p.key, "GET", "/api/v1/projects/demo/decisions/"+d.ID, "").body, &decision); err != nil {
			p.t.Fatal(err)
		}
		for _, row := range decision.Report {
			fates[row.Action+" "+row.Policy+" "+row.Reason]++
		}
	}
	return fates
}

// The demo shows what Mneme does: everything that can happen to a message occurs, and a second run changes nothing.
func TestDemo(t *testing.T) {
	p := launch(t, t.TempDir())
	run := func() string {
		t.Helper()
		var stdout bytes.Buffer
		err := run(t.Context(), []string{"demo", "--url", p.url, "--data", p.data}, noEnvironment, &stdout, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if status, _ := p.open(stdout.String()); status != 201 {
			t.Errorf("the link that it prints: %d", status)
		}
		return stdout.String()
	}
	if said := run(); !strings.Contains(said, "has 4 sessions of 58 turns") {
		t.Errorf("it says %s", said)
	}
	fates := p.fates()
	for _, want := range []string{"keep mneme kept", "drop latest-only superseded", "drop tool-pair-trim beyond_depth",
		"compress tool-pair-trim beyond_depth", "drop tool-pair-trim over_max_tokens", "summarise summarise summarised",
		"truncate tool-result-clear result_too_long", "strip mneme thinking_prefix", "inject mneme recalled"} {
		if fates[want] == 0 {
			t.Errorf("no message in it is %s: %v", want, fates)
		}
	}
	before := p.shown()
	for _, want := range []string{`"viewer":{"agent":"warehouse","delegation_id":"ask-warehouse-1"}`, `"version":3`,
		`"kind":"background"`, `"format":"openai.responses"`} {
		if !strings.Contains(before, want) {
			t.Errorf("%s is not in it", want)
		}
	}
	replayed := p.do(p.key, "POST", "/api/v1/policies/latest-only/versions/2/replay",
		`{"project_id":"demo","against":"none","config":{"keep":2}}`)
	if replayed.status != 200 || !strings.Contains(string(replayed.body), `"reason_code":"superseded"`) {
		t.Errorf("its second version over its sessions: %d %s", replayed.status, replayed.body)
	}
	if said := run(); !strings.Contains(said, "nothing was changed") {
		t.Errorf("the second run says %s", said)
	}
	if after := p.shown(); after != before {
		t.Errorf("the second run changed:\n%s\nto:\n%s", before, after)
	}
}

// Wherever a run is interrupted, the next one completes it, and nothing exists twice.
func TestDemoGoesOnWhereItWasCutOff(t *testing.T) {
	whole := launch(t, t.TempDir())
	if _, err := demo.Fill(t.Context(), whole.url, whole.key, time.Now()); err != nil {
		t.Fatal(err)
	}
	p := launch(t, t.TempDir())
	target, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	var left atomic.Int64
	through := httputil.NewSingleHostReverseProxy(target)
	cutting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if left.Add(-1) < 0 {
			http.Error(w, "cut off", http.StatusInternalServerError)
			return
		}
		through.ServeHTTP(w, r)
	}))
	defer cutting.Close()
	const step = 11 // the number of requests that each run may send more than the previous one
	for may := int64(step); ; may += step {
		left.Store(may)
		if _, err = demo.Fill(t.Context(), cutting.URL, p.key, time.Now()); err == nil && may > 3*step {
			break
		}
		if err == nil || may > 40*step || !strings.Contains(err.Error(), "cut off") {
			t.Fatalf("a run that may send %d requests: %v", may, err)
		}
	}
	if got, want := counts(p.shown()), counts(whole.shown()); got != want {
		t.Errorf("after being cut off: %s; at one go: %s", got, want)
	}
}

// counts returns how often the names of fields occur in shown.
func counts(shown string) string {
	var out strings.Builder
	for _, field := range []string{`"session_id"`, `"id"`, `"key"`, `"decision_id"`, `"version"`, `"content"`} {
		fmt.Fprintf(&out, "%s %d ", field, strings.Count(shown, field))
	}
	return out.String()
}

// A server that is started with --demo fills the project itself. A user's own project of that name is not changed.
func TestServeDemo(t *testing.T) {
	p := launch(t, t.TempDir(), "--demo")
	for name := ""; name != "Demo"; {
		a := p.do(p.key, "GET", "/api/v1/projects/demo", "")
		if a.status == 200 {
			name = a.text(t, "name")
		}
		if t.Context().Err() != nil {
			t.Fatal("it was not filled")
		}
	}
	if p.fates()["strip mneme thinking_prefix"] == 0 {
		t.Error("it does not show what the demo shows")
	}
	own := launch(t, t.TempDir())
	own.do(own.key, "PUT", "/api/v1/projects/demo", `{"name":"Ours"}`)
	if _, err := demo.Fill(t.Context(), own.url, own.key, time.Now()); err == nil || !strings.Contains(err.Error(),
		"not the demo's") {
		t.Errorf("a project of ours: %v", err)
	}
	if a := own.do(own.key, "GET", "/api/v1/projects/demo", ""); a.text(t, "name") != "Ours" {
		t.Errorf("%s", a.body)
	}
}
