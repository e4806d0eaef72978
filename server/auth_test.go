package server

import (
	"context"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	s := start(t, anyTurn)
	for _, c := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"bearer", []string{"Authorization", "Bearer agent"}, 201},
		{"any case", []string{"Authorization", "bearer  agent "}, 201},
		{"agent token", []string{"Authorization", "", "X-Agent-Token", "agent"}, 201},
		{"beside another scheme", []string{"Authorization", "Basic eDp5", "X-Agent-Token", "agent"}, 201},
		{"bearer wins", []string{"Authorization", "Bearer nobody", "X-Agent-Token", "agent"}, 401},
		{"none", []string{"Authorization", ""}, 401},
		{"empty", []string{"Authorization", "Bearer "}, 401},
		{"unknown", []string{"Authorization", "Bearer nobody"}, 401},
		{"other scheme", []string{"Authorization", "Basic eDp5"}, 401},
		{"role too low", []string{"Authorization", "Bearer reader"}, 403},
	} {
		a := s.do("POST", turns, `{}`, c.headers...)
		if a.status != c.status {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
		if (a.header.Get("WWW-Authenticate") != "") != (c.status == 401) {
			t.Errorf("%s: WWW-Authenticate %q", c.name, a.header.Get("WWW-Authenticate"))
		}
		if c.status >= 400 {
			a.problem(t)
		}
	}
}

// Each route refuses requests without a key with 401, and the role just below its own with 403, before any other
// check.
func TestEveryRouteAsksForItsRole(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, r := range s.s.routes {
		if r.role == ident.RoleNone {
			continue
		}
		if r.proxied != nil { // its errors follow a provider's protocol
			for key, status := range map[string]int{"": 401, "reader": 403, rootKey: 403} {
				if a := s.do(r.method, r.path, "", "Authorization", "", "X-Mneme-Key", key); a.status != status ||
					!strings.Contains(string(a.body), `"error":{`) {
					t.Errorf("%s %s as %q: %d %s", r.method, r.path, key, a.status, a.body)
				}
			}
			continue
		}
		if p := s.do(r.method, r.path, "", "Authorization", "").problem(t); p.Status != 401 || p.Code != "key_missing" {
			t.Errorf("%s %s without a key: %+v", r.method, r.path, p)
		}
		if r.role == ident.RoleReader {
			continue
		}
		if p := s.do(r.method, r.path, "", "Authorization", "Bearer "+(r.role-1).String()).problem(t); p.Status != 403 {
			t.Errorf("%s %s as %s: %+v", r.method, r.path, r.role-1, p)
		}
	}
}

func TestTenants(t *testing.T) {
	t.Parallel()
	var in string
	s := start(t, answering("listProjects", func(_ context.Context, c *call[nothing]) (nothing, error) {
		in = c.caller.Tenant
		return nothing{}, nil
	}))
	s.tenant("other")
	for _, c := range []struct {
		key, query string
		status     int
		in         string
	}{
		{"reader", "", 200, "default"},
		{"reader", "?tenant=default", 200, "default"},
		{"reader", "?tenant=other", 404, ""},
		{"tenant_admin/other", "", 200, "other"},
		{"tenant_admin/other", "?tenant=default", 404, ""},
		{"root", "?tenant=other", 200, "other"},
		{"root", "?tenant=nobody", 404, ""},
		{"root", "", 422, ""},
	} {
		in = ""
		a := s.do("GET", "/api/v1/projects"+c.query, "", "Authorization", "Bearer "+c.key)
		if a.status != c.status || in != c.in {
			t.Errorf("%s %s: %d in %q", c.key, c.query, a.status, in)
		}
	}
	if a := s.do("GET", "/api/v1/tenants", "", "Authorization", "Bearer root"); a.status != 200 {
		t.Errorf("root, of no tenant: %d", a.status)
	}
}
