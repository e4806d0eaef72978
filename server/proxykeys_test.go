package server

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

const sealedSecret, clientSecret = "sk-sealed-0123456789", "sk-client-9876543210"

// sealing sets the operator's key for sealing secrets.
func sealing(key string) func(*setup) {
	return func(o *setup) {
		sealer, err := provider.NewSealer(key)
		if err != nil {
			panic(err)
		}
		o.upstreams.Sealer = sealer
	}
}

// TestSealedKeys checks that a provider's key that a project stores in Mneme reaches only that provider, that no key
// of Mneme's reaches a provider, and that neither appears in the store, the log, a response, or an export.
func TestSealedKeys(t *testing.T) {
	t.Parallel()
	provider, kept := providers.Start(t), memstore.New()
	s := inFront(t, provider.URL, sealing(strings.Repeat("operator", 4)), func(o *setup) { o.store = kept })
	upstreams := func(base, more string) string {
		return fmt.Sprintf(`{"upstreams":[{"name":"o","protocol":"openai","base_url":"%s","key":"sealed","allow_private":true%s},
			{"name":"a","protocol":"anthropic","base_url":"%s","key":"sealed","allow_private":true%s}]}`, base, more, base, more)
	}
	secret := `,"secret":"` + sealedSecret + `"`
	var answers bytes.Buffer
	settings := func(body string, want int) {
		t.Helper()
		a := s.do("PATCH", "/api/v1/projects/default/settings", body, "Content-Type", jsonType)
		if a.status != want {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
		answers.Write(a.body)
	}
	base := provider.URL + "/v1"
	settings(upstreams(base, ""), 422) // a sealed upstream needs a secret
	settings(upstreams(base, secret), 200)
	settings(upstreams(base, ""), 200)      // and keeps it
	settings(upstreams(base+"/x", ""), 422) // but does not send it to another address
	settings(upstreams(base, `,"models":["*"]`), 200)

	place := map[string]string{"/v1/messages": "X-Api-Key", "/v1/chat/completions": "Authorization", "/v1/responses": "Authorization"}
	for path, body := range modelCalls {
		for _, where := range [][2]string{{"Authorization", "Bearer agent"}, {"X-Api-Key", "agent"}, {"X-Mneme-Key", "agent"}} {
			headers := []string{"Authorization", "", "Anthropic-Version", "1", "X-Client-Request-Id", "x", "User-Agent", s.key("agent"),
				"Openai-Project", "root", where[0], where[1]}
			if where[0] == "X-Mneme-Key" { // the client's own provider key is not passed on
				headers = append(headers, "Authorization", "Bearer "+clientSecret)
			}
			a := s.do("POST", path, body, headers...)
			answers.Write(a.body)
			fmt.Fprint(&answers, a.header)
			seen := provider.Requests()
			last := seen[len(seen)-1].Header
			if a.status != 200 || !strings.HasSuffix(last.Get(place[path]), sealedSecret) || len(last.Values(place[path])) != 1 {
				t.Errorf("%s by %s: %d %s %v", path, where[0], a.status, a.body, last)
			}
		}
	}
	for _, seen := range provider.Requests() {
		for name, values := range seen.Header {
			text := strings.Join(values, " ")
			if strings.Contains(text, "mk_") || strings.Contains(text, clientSecret) || slices.Contains(values, rootKey) ||
				strings.HasPrefix(name, "X-Mneme") {
				t.Errorf("the provider saw %s: %s", name, text)
			}
		}
	}
	for _, path := range []string{"/api/v1/projects/default/settings", "/api/v1/export", "/api/v1/audit"} {
		answers.Write(s.do("GET", path, "").body)
	}
	s.do("POST", "/v1/chat/completions", `{"model":"m"}`, "X-Mneme-Key", "agent", "X-Mneme-Mode", clientSecret)
	s.do("POST", "/v1/models/"+s.key("agent"), ``, callHeaders()...)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	records := whole(t, kept)
	for _, key := range []string{sealedSecret, clientSecret, s.key("agent")} {
		for where, text := range map[string]string{"an answer": answers.String(), "the log": s.log.String(), "the store": records} {
			if strings.Contains(text, key) {
				t.Errorf("%s holds %s", where, key[:6])
			}
		}
	}
	if !strings.Contains(records, `"secrets"`) {
		t.Error("the store was not looked at")
	}

	// With another operator key the secret cannot be opened, and the client is told.
	s = inFront(t, provider.URL, sealing(strings.Repeat("another!", 4)), func(o *setup) { o.store = kept })
	count := len(provider.Requests())
	a := s.do("POST", "/v1/chat/completions", modelCalls["/v1/chat/completions"], "Authorization", "", "X-Mneme-Key", "agent")
	if a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "upstream_key_unusable") ||
		len(provider.Requests()) != count {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// whole returns everything in a store, as text.
func whole(t *testing.T, s *memstore.Store) string {
	t.Helper()
	var b strings.Builder
	err := s.Snapshot(t.Context(), func(tenant string, it store.Item) error {
		fmt.Fprintf(&b, "%s %q %s\n", tenant, it.Key, it.Value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
