package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// pieces are what ids in these tests are made of: separators of URLs, keys and names, escapes, scripts, accents and emoji.
var pieces = []string{"/", "%", "%2F", "%00", "..", "./", "!", "~1", "~", "?", "#", "&", "=", "+", ":", "@", ",", ";", "|", `\`, `"`, "'", "<b>",
	"{", "}", "*", "$", " ", "  ", "a", "Z", "9", "-", "_", "é", "e\u0301", "ß", "İ", "日本", "한", "שלום", "سلام", "می\u200cخ", "👩\u200d💻", "\ufffd"}

// randomID returns an id of random printable text.
func randomID(random *rand.Rand, without string) string {
	for {
		var id string
		for range 1 + random.IntN(20) {
			if piece := pieces[random.IntN(len(pieces))]; len(id)+len(piece) <= 128 {
				id += piece
			}
		}
		if random.IntN(8) == 0 {
			id += strings.Repeat("x", 128-len(id))
		}
		if ident.CheckID("id", id) == nil && !strings.ContainsAny(id, without) {
			return id
		}
	}
}

// TestMatrixOfAnyIDs asks every route about things with random ids: it finds each under its own, and gives it back unchanged.
func TestMatrixOfAnyIDs(t *testing.T) {
	server := startMatrix(t)
	random := rand.New(rand.NewPCG(31, 5))
	named := func() map[string]string {
		ids := map[string]string{}
		for _, thing := range []string{"project", "session", "memory", "board", "agent", "value"} {
			ids[thing] = randomID(random, "")
		}
		ids["policy"] = randomID(random, "@")
		ids["tenant"] = mneme.unique("ü/%~ !_" + string([]rune(randomID(random, "x"))[0]))
		return ids
	}
	h := newTenancyOf(t, server, named())
	for _, row := range matrixRows() {
		at := h
		if row.consumes {
			at = newTenancyOf(t, server, named())
		}
		who := at.admin.in(t)
		if row.least == "root" {
			who = at.root.in(t)
		}
		r := row.ask(at, who, "")
		if r.status != row.ok {
			t.Errorf("%s of %q: status %d, want %d: %s", row.route, at.things, r.status, row.ok, clip(string(r.body), 300))
		}
		row.showsItsID(t, at, r)
	}
}

var lastName = regexp.MustCompile(`^GET .*/\{(project|session|memory|board|agent|value|policy)\}$`)

// showsItsID wants a route that shows one thing to name it as it was named.
func (r matrixRow) showsItsID(t *testing.T, h *tenancy, answer reply) {
	t.Helper()
	thing := lastName.FindStringSubmatch(r.route)
	if thing == nil {
		return
	}
	var shown struct{ ID, Key, Name string }
	answer.into(&shown)
	if want := h.things[thing[1]]; !slices.Contains([]string{shown.ID, shown.Key, shown.Name}, want) {
		t.Errorf("%s of %q: %s", r.route, want, clip(string(answer.body), 300))
	}
}

// TestMatrixRefusesWhatIsNoID: a path in which an id has control characters or too many bytes is a 422 that
// says so, at every route.
func TestMatrixRefusesWhatIsNoID(t *testing.T) {
	h := newTenancy(t, startMatrix(t))
	for _, row := range matrixRows() {
		method, path, _ := strings.Cut(row.route, " ")
		for _, thing := range []string{"project", "session", "memory", "board", "agent", "value", "policy", "tenant"} {
			if !strings.Contains(path, "{"+thing+"}") {
				continue
			}
			for _, odd := range []string{"a%09b", "%00", "a%0D%0Ab", "%E2%80%AE", "%FF", "%20", strings.Repeat("x", 129)} {
				wrong := h.fill(strings.ReplaceAll(path, "{"+thing+"}", odd), url.PathEscape)
				send := func(c client, method, path, body string) reply { return c.do(method, path, []byte(body)) }
				if row.proxied() {
					send = sendProxied
				}
				c := h.admin.in(t)
				if row.least == "root" {
					c = h.root.in(t)
				}
				if r := send(c, method, wrong, "{}"); r.status != 422 || !strings.Contains(string(r.body), "must be 1 to 128 bytes of printable UTF-8") {
					t.Errorf("%s with %q: %d %s", row.route, odd, r.status, clip(string(r.body), 300))
				}
			}
		}
	}
}

// TestNoIDReachesAnother stores things whose ids look like each other's parts, escapes, ranges and normal forms, and finds each
// alone, in lists, too.
func TestNoIDReachesAnother(t *testing.T) {
	c := own(t)
	ids := []string{"a", "a/b", "a%2Fb", "a%252Fb", "a!b", "a%21b", "/a", "/a!b", "!", "/", "%", "%2F", "a ", " a", "a  b", "a b", "a+b", "a%20b",
		"../a", "..", "a/..", "a~1", "a~side", "a~", "é", "e\u0301", "A", "a\u200db", "a:b", "a@1", `a"b`, `a\b`, "a?b#c", "..%2F..", "a,b", "a;b",
		"{a}", "日本", strings.Repeat("ü", 64)}
	ids = slices.DeleteFunc(ids, ident.PathSegment)
	namespaces := [][]string{nil, {"a"}, {"a", "b"}, {"a/b"}, {"a!b"}, {"a%2Fb"}}
	inside := func(namespace []string) string {
		query := url.Values{"namespace": namespace}
		return "?" + query.Encode()
	}
	for i, id := range ids {
		c.post(c.path("/sessions"), object{"id": id, "title": fmt.Sprint("session ", i)}).want(201)
		for j, namespace := range namespaces {
			c.post(c.path("/memories"), object{"key": id, "namespace": namespace, "content": fmt.Sprint("memory ", i, " ", j)}).want(201)
		}
		c.do("PUT", "/api/v1/boards/neighbours/values/"+url.PathEscape(id), object{"value": i}).want(201)
	}
	for i, id := range ids {
		escaped := url.PathEscape(id)
		var s struct{ ID, Title string }
		c.get(c.path("/sessions/" + escaped)).want(200).into(&s)
		if s.ID != id || s.Title != fmt.Sprint("session ", i) {
			t.Errorf("session %q: %+v", id, s)
		}
		for j, namespace := range namespaces {
			var m struct{ Key, Content string }
			c.get(c.path("/memories/" + escaped + inside(namespace))).want(200).into(&m)
			if m.Key != id || m.Content != fmt.Sprint("memory ", i, " ", j) {
				t.Errorf("memory %q in %q: %+v", id, namespace, m)
			}
		}
		var v struct{ Value int }
		c.get("/api/v1/boards/neighbours/values/" + escaped).want(200).into(&v)
		if v.Value != i {
			t.Errorf("value %q: %d", id, v.Value)
		}
	}
	for j, namespace := range namespaces[1:] {
		listed := 0
		for cursor := ""; ; {
			var page struct {
				Data       []struct{ Content string }
				NextCursor *string `json:"next_cursor"`
			}
			c.get(c.path("/memories" + inside(namespace) + "&limit=7&cursor=" + cursor)).want(200).into(&page)
			for _, m := range page.Data {
				listed++
				if last := m.Content[strings.LastIndexByte(m.Content, ' ')+1:]; last != fmt.Sprint(j+1) && !(j == 0 && last == "2") {
					t.Errorf("%q lists %q", namespace, m.Content)
				}
			}
			if page.NextCursor == nil {
				break
			}
			cursor = *page.NextCursor
		}
		want := len(ids)
		if j == 0 {
			want *= 2 // and those of the namespace below
		}
		if listed != want {
			t.Errorf("%q lists %d memories, want %d", namespace, listed, want)
		}
	}
	gone := ids[len(ids)/2]
	c.do("DELETE", c.path("/sessions/"+url.PathEscape(gone)), nil).want(204)
	c.do("DELETE", c.path("/memories/"+url.PathEscape(gone)), nil).want(204)
	var left struct{ Data []json.RawMessage }
	c.get(c.path("/sessions?limit=1000")).want(200).into(&left)
	if n := len(left.Data); n != len(ids)-1 && n != len(ids) { // the project's first session is listed once it has turns
		t.Errorf("%d sessions are left of %d", n, len(ids))
	}
	c.get(c.path("/memories?limit=1000")).want(200).into(&left)
	if n := len(left.Data); n != len(ids)*len(namespaces)-1 {
		t.Errorf("%d memories are left of %d", n, len(ids)*len(namespaces))
	}
}
