package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/session"
)

// logLines returns the lines of the access log for a route.
func (s *site) logLines(t *testing.T, route string) (lines []map[string]any) {
	t.Helper()
	for text := range strings.Lines(s.log.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if line["route"] == route {
			lines = append(lines, line)
		}
	}
	return lines
}

// A line says who requested what, and how the request ended.
func TestAccessLogFields(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.do("POST", turns, `{"messages":[{"role":"user","content":"never logged"}]}`)
	made := s.do("POST", contextPath+"?", `{}`)
	s.do("GET", "/api/v1/projects/default/sessions?q=never+logged", ``)
	s.do("GET", "/healthz", ``)
	var answer struct {
		DecisionID string `json:"decision_id"`
	}
	if err := json.Unmarshal(made.body, &answer); err != nil || answer.DecisionID == "" {
		t.Fatalf("%v in %s", err, made.body)
	}
	export := s.do("GET", "/api/v1/export", ``)
	if err := s.stop(); err != nil { // so that all lines are written
		t.Fatal(err)
	}
	for _, c := range []struct {
		route, level, method string
		status, bytes        int
		decision             any
	}{
		{turnsRoute, "INFO", "POST", 201, -1, nil},
		{contextRoute, "INFO", "POST", 200, len(made.body), answer.DecisionID},
		{"/api/v1/projects/{project}/sessions", "INFO", "GET", 200, -1, nil},
		{"/api/v1/export", "INFO", "GET", 200, len(export.body), nil},
		{"/healthz", "DEBUG", "GET", 200, -1, nil},
	} {
		lines := s.logLines(t, c.route)
		if len(lines) != 1 {
			t.Errorf("%d lines of %s", len(lines), c.route)
			continue
		}
		l := lines[0]
		bytes, _ := l["bytes"].(float64)
		took, timed := l["duration_ms"].(float64)
		id, _ := l["request_id"].(string)
		if l["msg"] != "request" || l["level"] != c.level || l["method"] != c.method || l["status"] != float64(c.status) ||
			c.bytes >= 0 && int(bytes) != c.bytes || l["decision_id"] != c.decision || !timed || took < 0 ||
			!strings.HasPrefix(id, "req_") || (c.route == "/healthz") != (l["tenant"] == nil) {
			t.Errorf("%s: %v", c.route, l)
		}
	}
	if strings.Contains(s.log.String(), "never") {
		t.Errorf("the log has contents:\n%s", s.log)
	}
}

const (
	turnsRoute   = "/api/v1/projects/{project}/turns"
	contextRoute = "/api/v1/projects/{project}/context"
)

// The sample is a share of the successful requests; failed ones are all logged.
func TestAccessLogSample(t *testing.T) {
	t.Parallel()
	const requests = 200
	for _, c := range []struct {
		sample   float64
		from, to int
	}{{0, 0, 0}, {0.1, 10, 30}, {0.5, 80, 120}, {1, requests, requests}} {
		fails := false
		s := start(t, func(o *setup) { o.LogSample = c.sample },
			appending(func(context.Context, *call[session.TurnRequest]) error {
				if fails {
					return fmt.Errorf("the disk is on fire")
				}
				return nil
			}))
		for range requests {
			s.do("POST", turns, `{}`)
		}
		if n := len(s.logLines(t, turnsRoute)); n < c.from || n > c.to {
			t.Errorf("a sample of %v: %d of %d lines", c.sample, n, requests)
		}
		before := len(s.logLines(t, turnsRoute))
		s.do("POST", turns, `{"unknown":1}`)
		fails = true
		s.do("POST", turns, `{}`)
		lines := s.logLines(t, turnsRoute)[before:]
		if len(lines) != 2 || lines[0]["level"] != "INFO" || lines[0]["status"] != 422.0 || lines[0]["error"] != nil ||
			lines[1]["level"] != "ERROR" || lines[1]["error"] != "the disk is on fire" {
			t.Errorf("a sample of %v: failures are logged as %v", c.sample, lines)
		}
	}
}
