package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strings"
	"testing"

	size "github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// personal matches the words that people use. Each has the letters of its owner's number, and nobody's is a beginning of
// another's, but all are alike enough to be taken for misspellings of each other.
var personal = regexp.MustCompile(`qu([b-m]{2})ro[a-z]+`)

// crowd is a project of people whose keys are narrowed to their own namespaces.
type crowd struct {
	*site
	r        *rand.Rand
	people   []string // the letters of their numbers
	keys     map[string]string
	provider *providers.Server
	seen     int // requests that the provider has got, as far as they are checked
	answers  map[int]int
}

func newCrowd(t *testing.T, seed uint64, people int) *crowd {
	p := providers.Start(t)
	c := &crowd{site: inFront(t, p.URL), r: rand.New(rand.NewPCG(seed, 7)), provider: p, keys: map[string]string{},
		answers: map[int]int{}}
	c.do("PATCH", "/api/v1/projects/default/settings", `{"proxy_mode":"assemble","proxy_tools":["memory_recall","memory_store"]}`)
	for i := range people {
		who := string([]byte{byte('b' + i/12%12), byte('b' + i%12)})
		a := c.do("POST", "/api/v1/keys", fmt.Sprintf(`{"name":"x","role":"agent","namespaces":[["users",%q]]}`, "u-"+who))
		var made struct{ Key string }
		into(t, a, &made)
		c.people, c.keys[who] = append(c.people, who), made.Key
	}
	return c
}

func into(t *testing.T, a answer, v any) {
	t.Helper()
	if a.status >= 300 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatal(err)
	}
}

func (c *crowd) anyone() string { return c.people[c.r.IntN(len(c.people))] }

// word returns a word of somebody's.
func (c *crowd) word(who string) string {
	return "qu" + who + "ro" + []string{"lan", "tem", "vik", "sor", "dan", "pel"}[c.r.IntN(6)]
}

func (c *crowd) text(who string) string {
	words := []string{"the", "meeting", "about"}
	for range 1 + c.r.IntN(5) {
		words = append(words, c.word(who))
	}
	return strings.Join(words, " ")
}

// query returns a query by somebody: of own words, of others' words, misspelt, by their beginning, or of common words.
func (c *crowd) query(who string) string {
	w := c.word(who)
	if c.r.IntN(3) == 0 {
		w = c.word(c.anyone())
	}
	switch c.r.IntN(6) {
	case 0:
		return w[:2] + string("bcdefghijklm"[c.r.IntN(12)]) + w[3:]
	case 1:
		return w[:4] + "or" + w[6:]
	case 2:
		return w[:6] + "*"
	case 3:
		return "meeting"
	case 4:
		return "*"
	}
	return w + " meeting"
}

// errand is one request to the server.
type errand struct{ method, path, body string }

// request returns a random request by somebody. If others is not empty, it names what belongs to that person.
func (c *crowd) request(who, others string) errand {
	const project = "/api/v1/projects/default"
	named, namespace := who, ""
	if others != "" {
		named, namespace = others, "?namespace=users&namespace=u-"+others
	}
	key, session := fmt.Sprint("k", c.r.IntN(4)), "s-"+named
	in := ""
	if others != "" {
		in = fmt.Sprintf(`"namespace":["users","u-%s"],`, others)
	}
	q := c.query(who)
	call := func(tool, arguments string) string {
		return fmt.Sprintf(`{"name":%q,"arguments":{%s%s}}`, tool, in, arguments)
	}
	chat := fmt.Sprintf(`{"model":"gpt-4.1","messages":[{"role":"user","content":%q}]}`, c.text(who))
	all := []errand{
		{"POST", project + "/memories", fmt.Sprintf(`{%s"key":%q,"content":%q}`, in, key, c.text(who))},
		{"POST", project + "/memories", fmt.Sprintf(`{%s"key":%q,"content":%q,"value":{"note":%q}}`, in, key, c.text(who), c.text(who))},
		{"PATCH", project + "/memories/" + key + namespace, fmt.Sprintf(`{"tags":[%q]}`, c.word(who))},
		{"GET", project + "/memories/" + key + namespace, ""},
		{"GET", project + "/memories/" + key + "/history" + namespace, ""},
		{"DELETE", project + "/memories/" + key + namespace, ""},
		{"GET", project + "/memories" + namespace, ""},
		{"GET", project + "/memories?order=recent&limit=2" + strings.Replace(namespace, "?", "&", 1), ""},
		{"GET", project + "/namespaces" + namespace, ""},
		{"POST", project + "/memories/forget", fmt.Sprintf(`{%s"tags":[%q]}`, in, c.word(c.anyone()))},
		{"POST", project + "/memories/recall", fmt.Sprintf(`{%s"query":%q,"limit":20}`, in, q)},
		{"POST", project + "/memories/recall", fmt.Sprintf(`{%s"query":%q,"scope":"both","limit":20}`, in, q)},
		{"POST", project + "/memories/recall", fmt.Sprintf(`{%s"query":%q,"scope":"transcript","limit":20}`, in, q)},
		{"POST", project + "/tools/call", call("memory_recall", fmt.Sprintf(`"query":%q`, q))},
		{"POST", project + "/tools/call", call("memory_list", `"limit":50`)},
		{"POST", project + "/tools/call", call("memory_get", fmt.Sprintf(`"key":%q`, key))},
		{"POST", project + "/tools/call", `{"name":"memory","arguments":{"command":"view","path":"/memories"}}`},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + call("memory_recall", fmt.Sprintf(`"query":%q`, q)) + `}`},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`},
		{"POST", "/mcp?session=" + session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + call("memory_list", `"limit":9`) + `}`},
		{"POST", project + "/turns", fmt.Sprintf(`{"session_id":%q,"messages":[{"role":"user","content":%q}]}`, session, c.text(who))},
		{"POST", project + "/context", fmt.Sprintf(`{"session_id":%q,"explain":true,"pending":[{"role":"user","content":%q}],"memories":{"limit":20}}`, session, q)},
		{"POST", project + "/context", fmt.Sprintf(`{"session_id":%q,"pending":[{"role":"user","content":"meeting"}],"memories":{%s"query":%q}}`, session, in, q)},
		{"GET", project + "/sessions?sort=-last_activity_at&fields=preview,window", ""},
		{"GET", project + "/sessions?q=" + url.QueryEscape(q), ""},
		{"GET", project + "/sessions/" + session, ""},
		{"GET", project + "/sessions/" + session + "/messages", ""},
		{"GET", project + "/sessions/" + session + "/export", ""},
		{"POST", project + "/sessions/" + session + "/rewind", `{"to_turn":2}`},
		{"POST", "/p/default/s/" + session + "/v1/chat/completions", chat},
		{"POST", "/p/default/s/" + session + "/v1/messages", `{"max_tokens":99,` + strings.Replace(chat[1:], "gpt-4.1", "claude-sonnet-4-5", 1)},
	}
	if others != "" {
		return all[c.r.IntN(len(all))]
	}
	return append(all, errand{"GET", project + "/stats", ""}, errand{"GET", project + "/decisions", ""}, errand{"GET", project, ""},
		errand{"GET", project + "/settings", ""}, errand{"GET", "/api/v1/boards", ""}, errand{"GET", "/api/v1/audit", ""},
		errand{"GET", "/api/v1/usage", ""}, errand{"GET", "/api/v1/export", ""}, errand{"GET", "/api/v1/keys", ""},
		errand{"GET", "/api/v1/whoami", ""})[c.r.IntN(len(all)+10)]
}

// leaks returns a word of a person other than one in a text, unless the request itself has it.
func leaks(text []byte, who string, of errand) string {
	for _, m := range personal.FindAllSubmatch(text, -1) {
		word := string(m[0])
		if string(m[1]) != who && !strings.Contains(of.path+of.body, word) {
			return word
		}
	}
	for _, m := range regexp.MustCompile(`[us]-([b-m]{2})\b`).FindAllSubmatch(text, -1) {
		if string(m[1]) != who && !strings.Contains(of.path+of.body, string(m[0])) {
			return string(m[0])
		}
	}
	return ""
}

// ask sends a request with somebody's key, and checks that neither its answer nor what the provider got holds a word of
// anybody else's.
func (c *crowd) ask(who string, req errand) {
	c.t.Helper()
	key := []string{"Authorization", "Bearer " + c.keys[who]}
	if strings.HasPrefix(req.path, "/p/") {
		key = []string{"Authorization", "Bearer sk-client", "X-Mneme-Key", c.keys[who]}
	}
	a := c.do(req.method, req.path, req.body, append(key, "Content-Type", "application/json", "Accept", "application/json, text/event-stream",
		"Anthropic-Version", "2023-06-01")...)
	c.answers[a.status]++
	if word := leaks(a.body, who, req); word != "" {
		c.t.Errorf("%s is shown %q by %s %s %s: %s", who, word, req.method, req.path, req.body, a.body)
	}
	if a.status >= 500 {
		c.t.Errorf("%s %s %s: %d %s", req.method, req.path, req.body, a.status, a.body)
	}
	got := c.provider.Requests()
	for _, p := range got[c.seen:] {
		if word := leaks(p.Body, who, req); word != "" {
			c.t.Errorf("the provider is sent %q for %s by %s %s: %s", word, who, req.path, req.body, p.Body)
		}
	}
	c.seen = len(got)
}

// 100 people share a project, each with a key for an own namespace. Whatever they ask, by whatever API, also for each
// other's words and things, they get and change their own alone.
func TestCampaignApart(t *testing.T) {
	seed, people, requests := size.Seed(t), 100, size.Size(1000, 100_000)
	c := newCrowd(t, seed, people)
	for _, who := range c.people {
		for range 3 {
			c.ask(who, errand{"POST", "/api/v1/projects/default/memories", fmt.Sprintf(`{"key":"k%d","content":%q}`, c.r.IntN(4), c.text(who))})
		}
		c.ask(who, errand{"POST", "/api/v1/projects/default/turns", fmt.Sprintf(`{"session_id":"s-%s","messages":[{"role":"user","content":%q}]}`, who, c.text(who))})
	}
	for i := range requests {
		who, others := c.anyone(), ""
		if i%4 == 0 {
			others = c.anyone()
		}
		if others == who {
			others = ""
		}
		c.ask(who, c.request(who, others))
		if t.Failed() && !size.Long() {
			break
		}
	}
	t.Logf("%d people, %d requests, answers by status: %v", people, requests, c.answers)
	if c.answers[200] < requests/3 || c.answers[404] < requests/10 || c.answers[403] < requests/20 || c.seen < requests/100 {
		t.Errorf("the requests reach little: %v, %d calls of the provider", c.answers, c.seen)
	}
}

// The check of the campaign finds what it looks for: somebody who is not narrowed sees the words of others.
func TestApartCanFail(t *testing.T) {
	c := newCrowd(t, 1, 2)
	for _, who := range c.people {
		c.ask(who, errand{"POST", "/api/v1/projects/default/memories", fmt.Sprintf(`{"key":"k","content":%q}`, c.text(who))})
	}
	a := c.do("POST", "/api/v1/projects/default/memories/recall", `{"query":"meeting"}`)
	if leaks(a.body, c.people[0], errand{}) == "" || leaks(a.body, c.people[1], errand{}) == "" {
		t.Errorf("nobody is shown anything: %s", a.body)
	}
}
