package e2e

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tenancy is a tenant with one of each thing, and keys of all kinds.
type tenancy struct {
	server      *process
	root, admin client
	things      map[string]string // by thingName
	keys        map[string]string // by the name of the caller
	marker      string
	secrets     []string // what no other tenant may see
}

// apart is the key of an agent that is limited to an empty namespace.
const apart = "apart"

// newTenancy creates a tenant whose things have the same names as those of any other.
func newTenancy(t testing.TB, server *process) *tenancy {
	t.Helper()
	return newTenancyOf(t, server, map[string]string{"tenant": mneme.unique("matrix"), "project": "shared", "session": "same",
		"policy": "own", "memory": "kept", "board": "board", "agent": "helper", "value": "plan"})
}

// newTenancyOf makes a tenant whose things have the given ids.
func newTenancyOf(t testing.TB, server *process, ids map[string]string) *tenancy {
	t.Helper()
	h := &tenancy{server: server, root: server.client(t).as(rootKey), things: maps.Clone(ids), keys: map[string]string{}}
	id := ids["tenant"]
	h.marker = "secret-of-" + mneme.unique("tenant") + "."
	h.things["marker"] = h.marker
	var made struct {
		AdminKey string `json:"admin_key"`
	}
	h.root.post("/api/v1/tenants", object{"id": id, "name": h.marker}).want(201).into(&made)
	h.admin = h.root.as(made.AdminKey)
	h.secrets = []string{h.marker, made.AdminKey}
	h.furnish()
	for who, spec := range map[string]object{
		"reader": {"role": "reader"}, "agent": {"role": "agent"},
		"narrowed in":  {"role": "tenant_admin", "projects": []string{h.things["project"]}},
		"narrowed out": {"role": "tenant_admin", "projects": []string{"elsewhere"}},
	} {
		spec["name"] = who
		var key struct{ ID, Key string }
		h.admin.post("/api/v1/keys", spec).want(201).into(&key)
		h.keys[who] = key.Key
		h.secrets = append(h.secrets, key.ID)
	}
	var key struct{ Key string }
	h.admin.post("/api/v1/keys", object{"name": "apart", "role": "agent", "namespaces": [][]string{{"elsewhere"}}}).want(201).
		into(&key)
	h.keys[apart] = key.Key
	h.keys["tenant_admin"] = made.AdminKey
	h.keys["none"], h.keys["unknown"], h.keys["root"], h.keys["root with a tenant"] = "", "mk_unknown", rootKey, rootKey
	return h
}

var thingName = regexp.MustCompile(`\{(\w+)\}`)

// fill puts a tenancy's things in place of their names, each encoded.
func (h *tenancy) fill(s string, encode func(string) string) string {
	return thingName.ReplaceAllStringFunc(s, func(name string) string {
		name = name[1 : len(name)-1]
		if name == "new" {
			return encode(mneme.unique("new"))
		}
		thing, ok := h.things[name]
		if !ok {
			h.admin.t.Fatalf("no thing %q: furnish it", name)
		}
		return encode(thing)
	})
}

// inJSON encodes a text as part of a JSON string.
func inJSON(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw[1 : len(raw)-1])
}

// ask sends a row's request about h's things with somebody's key.
func (r matrixRow) ask(h *tenancy, c client, tenant string) reply {
	method, path, _ := strings.Cut(r.route, " ")
	path = h.fill(path, url.PathEscape)
	query := h.fill(r.query, url.QueryEscape)
	if tenant != "" {
		query = strings.TrimPrefix(query+"&tenant="+url.QueryEscape(tenant), "&")
	}
	if query != "" {
		path += "?" + query
	}
	body := h.fill(r.body, inJSON)
	switch {
	case r.send != nil:
		return r.send(c, method, path, body)
	case body == "":
		return c.do(method, path, nil)
	}
	return c.do(method, path, []byte(body))
}

var roleOrder = []string{"open", "reader", "agent", "tenant_admin", "root"}

// want returns the status that the documented table of roles requires.
func (r matrixRow) want(who string) int {
	project := strings.Contains(r.route, "/projects/{project}") || strings.Contains(r.route, "/boards/{board}") ||
		strings.Contains(r.route, "/p/{project}")
	rank := func(role string) int { return slices.Index(roleOrder, role) }
	role := who
	if strings.HasPrefix(who, "root") && r.operator != 0 {
		return r.operator
	}
	switch who {
	case "none", "unknown":
		if r.least == "open" {
			return r.ok
		}
		return 401
	case "root":
		if r.least != "root" && r.least != "open" {
			return 422 // the request must name a tenant
		}
	case "root with a tenant":
		role = "root"
	case "narrowed in", "narrowed out":
		role = "tenant_admin"
	case apart:
		if r.least == "open" {
			return r.ok
		}
		return cmp.Or(r.apart, 403)
	}
	if rank(role) < rank(r.least) {
		return 403
	}
	switch {
	case who == "narrowed in":
		return cmp.Or(r.in, r.ok)
	case who == "narrowed out" && project:
		return cmp.Or(r.out, 404)
	case who == "narrowed out":
		return cmp.Or(r.out, r.ok)
	}
	return r.ok
}

// TestMatrixIsComplete fails if a route has no row.
func TestMatrixIsComplete(t *testing.T) {
	routes := describedRoutes(shared(t))
	for _, row := range matrixRows() {
		if !routes[row.route] {
			t.Errorf("there is no route %s, or it has two rows", row.route)
		}
		delete(routes, row.route)
	}
	for _, route := range slices.Sorted(maps.Keys(routes)) {
		t.Errorf("%s has no row: add one in matrix_rows_test.go", route)
	}
}

// TestMatrixOfRoles sends every request with every key: each may do what the documented table says, and no more.
func TestMatrixOfRoles(t *testing.T) {
	server := startMatrix(t)
	h := newTenancy(t, server)
	for _, row := range matrixRows() {
		t.Run(row.route, func(t *testing.T) {
			for _, who := range slices.Sorted(maps.Keys(h.keys)) {
				at, want := h, row.want(who)
				if row.consumes && want == row.ok {
					at = newTenancy(t, server)
				}
				tenant := ""
				if who == "root with a tenant" {
					tenant = at.things["tenant"]
				}
				r := row.ask(at, at.root.in(t).as(at.keys[who]), tenant)
				if r.status != want {
					t.Errorf("%s: status %d, want %d: %s", who, r.status, want, clip(string(r.body), 300))
				}
				if want >= 400 {
					row.refused(r)
				}
				if secret := at.reveals(r); who == apart && row.least != "open" && secret != "" && !strings.Contains(row.named(at)+row.body, secret) &&
					!strings.Contains(row.body, "{marker}") {
					t.Errorf("the key of another namespace is shown %q: %s", secret, clip(string(r.body), 300))
				}
			}
			if row.least == "open" || row.least == "root" {
				return
			}
			if row.own {
				row.keepsToItsKey(t, h)
				return
			}
			// An unknown tenant, for root; another tenant, for all other keys.
			row.ask(h, h.root.in(t), "nobody").problem(404)
			row.ask(h, h.admin.in(t), "default").problem(404)
		})
	}
}

// look returns what a tenancy's owner sees of it: the answers of all rows that only read, without fields that always
// change.
func (h *tenancy) look(t testing.TB) map[string]string {
	t.Helper()
	seen := map[string]string{}
	for _, row := range matrixRows() {
		if !strings.HasPrefix(row.route, "GET ") || row.least == "open" || row.least == "root" || row.varies {
			continue
		}
		seen[row.route] = steady.ReplaceAllString(string(row.ask(h, h.admin.in(t), "").want(200).body), `"$1":0`)
	}
	return seen
}

// steady matches fields that change by themselves.
var steady = regexp.MustCompile(`"(last_used_at|failures|request_id)":("[^"]*"|null|\d+)`)

// reveals returns the secret of a tenancy that an answer contains, or "".
func (h *tenancy) reveals(r reply) string {
	for _, secret := range h.secrets {
		if strings.Contains(string(r.body), secret) {
			return secret
		}
		for name, values := range r.header {
			if strings.Contains(strings.Join(values, " "), secret) {
				return name + ": " + secret
			}
		}
	}
	return ""
}

// TestMatrixOfTenants sends every request with one tenant's keys, about its own things and another's. Requests affect
// only their own tenant, and see, count, change and delete nothing of the other.
func TestMatrixOfTenants(t *testing.T) {
	server := startMatrix(t)
	red, blue := newTenancy(t, server), newTenancy(t, server)
	for _, pair := range [][2]*tenancy{{red, blue}, {blue, red}} {
		mine, theirs := pair[0], pair[1]
		before := theirs.look(t)
		for _, row := range matrixRows() {
			if row.least == "open" {
				continue
			}
			for _, who := range []string{"reader", "agent", "narrowed in", "narrowed out", "tenant_admin"} {
				row.trespass(t, mine, theirs, who)
			}
		}
		after := theirs.look(t)
		for route, was := range before {
			if is := after[route]; is != was {
				t.Errorf("%s was changed by another tenant\nfrom %s\nto   %s", route, clip(was, 600), clip(is, 600))
			}
		}
		*mine = *newTenancy(t, server) // its things are gone by now
	}
}

// trespass sends a request for the other's things, if these have other names, then for one's own.
func (r matrixRow) trespass(t *testing.T, mine, theirs *tenancy, who string) {
	t.Helper()
	c := mine.root.in(t).as(mine.keys[who])
	at := *mine
	at.things = maps.Clone(mine.things)
	foreign := false
	for _, name := range thingName.FindAllStringSubmatch(r.route, -1) {
		if mine.things[name[1]] != theirs.things[name[1]] {
			at.things[name[1]], foreign = theirs.things[name[1]], true
		}
	}
	if foreign {
		reply := r.ask(&at, c, "")
		if reply.status != 404 && reply.status != 403 {
			t.Errorf("%s with the key %q of another tenant: status %d", r.route, who, reply.status)
		}
		if reply.status == 403 && r.want(who) != 403 {
			t.Errorf("%s with the key %q tells that there is such a thing", r.route, who)
		}
		r.silent(t, reply, theirs, who, r.named(&at))
	}
	r.silent(t, r.ask(mine, c, ""), theirs, who, "")
	r.silent(t, r.ask(mine, c, theirs.things["tenant"]), theirs, who, theirs.things["tenant"])
}

// named returns the names in the request itself, which an answer may repeat.
func (r matrixRow) named(h *tenancy) string {
	_, path, _ := strings.Cut(r.route, " ")
	return h.fill(path, url.PathEscape)
}

// silent checks that an answer contains nothing of another tenant except what the request said itself.
func (r matrixRow) silent(t *testing.T, answer reply, of *tenancy, who, said string) {
	t.Helper()
	if secret := of.reveals(answer); secret != "" && !strings.Contains(said, secret) {
		t.Errorf("%s with the key %q of another tenant shows %q: %s", r.route, who, secret,
			clip(string(answer.body), 300))
	}
}

// TestMatrixCanFail: each row's successful request shows or changes something of its own tenant.
func TestMatrixCanFail(t *testing.T) {
	h := newTenancy(t, startMatrix(t))
	before := h.look(t)
	lines := map[string]bool{}
	for _, row := range matrixRows() {
		lines[row.route] = row.lines
	}
	showing := 0
	for route, answer := range before {
		if !json.Valid([]byte(answer)) && answer != "" && !lines[route] {
			t.Errorf("%s: %s", route, clip(answer, 200))
		}
		for _, secret := range h.secrets {
			if strings.Contains(answer, secret) {
				showing++
				break
			}
		}
	}
	if showing < 25 {
		t.Errorf("%d of %d routes show anything of the tenant: the matrix tells little", showing, len(before))
	}
	for _, row := range matrixRows() {
		if method, _, _ := strings.Cut(row.route, " "); method == "GET" || row.least == "open" || row.least == "root" ||
			row.consumes {
			continue
		}
		row.ask(h, h.admin, "").want(row.ok)
	}
	after := h.look(t)
	changed := 0
	for route := range before {
		if before[route] != after[route] {
			changed++
		}
	}
	if changed < 22 {
		t.Errorf("%d of %d views changed when the tenant changed: a change by another would go unnoticed", changed,
			len(before))
	}
}
