package e2e

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// withRecall adds a round before each answer, in which the model calls a memory tool, and such a call beside each other
// call.
func withRecall(says []providers.Reply) (out []providers.Reply) {
	for _, r := range says {
		recall := providers.Use("memory_recall", `{"query":"anything"}`)
		out = append(out, recall)
		for _, p := range r.Parts {
			if p.Call != nil {
				r.Parts = append(r.Parts, recall.Parts...)
				break
			}
		}
		out = append(out, r)
	}
	return out
}

// TestLibrariesWithMemoryTools runs the providers' own libraries while models also call memory tools. The libraries'
// results must be the same as without, and the transcript must have the calls.
func TestLibrariesWithMemoryTools(t *testing.T) {
	t.Parallel()
	folder := clientsFolder(t)
	stored := map[string]string{"text": "user assistant tool assistant", "stream": "user assistant tool assistant",
		"tools":  "user assistant tool assistant tool assistant tool tool assistant tool assistant",
		"thinks": "user assistant tool assistant user assistant tool assistant"}
	for _, runtime := range []string{"py", "mjs"} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			provider := providers.Start(t)
			c := behindProxy(t, provider.URL, "--default-proxy-tools", `["memory_recall","memory_store"]`)
			for _, l := range libraries {
				if (strings.HasPrefix(l.name, "ai-") || strings.Contains(l.name, "-node")) != (runtime == "mjs") {
					continue
				}
				var scenarios []string
				for _, name := range strings.Fields(l.scenarios) {
					if stored[name] != "" {
						scenarios = append(scenarios, name)
						provider.Script(withRecall(talks[name].script(l.api))...)
					}
				}
				got := c.library(folder, runtime, l.name, scenarios)
				for _, name := range scenarios {
					if got[name] != talks[name].want {
						t.Errorf("%s: %s came to %q, want %q", l.name, name, got[name], talks[name].want)
					}
					if roles := c.stored("run-"+l.name+"-"+name, stored[name]); roles != stored[name] {
						t.Errorf("%s: of %s is stored %q, want %q", l.name, name, roles, stored[name])
					}
				}
			}
			for _, refusal := range provider.Refusals() {
				t.Error(refusal)
			}
		})
	}
}

// TestKillBetweenRounds kills the program while the provider handles the second round, and again while the client runs
// the tools of an answer that also called Mneme's.
func TestKillBetweenRounds(t *testing.T) {
	t.Parallel()
	whole := providers.Start(t)
	recall := providers.Use("memory_store", `{"key":"drink","content":"Green tea."}`)
	mixed := providers.Use("lookup", `{}`)
	mixed.Parts = append(mixed.Parts, recall.Parts...)
	whole.Script(recall, recall, mixed, providers.Say("It is lost."))
	reached := make(chan struct{})
	count := 0
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if count++; count == 2 { // the second round of the first call
			_, _ = io.Copy(io.Discard, r.Body)
			close(reached)
			<-r.Context().Done()
			return
		}
		out := r.Clone(r.Context())
		out.RequestURI, out.URL.Scheme, out.URL.Host = "", "http", strings.TrimPrefix(whole.URL, "http://")
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(front.Close)
	data := t.TempDir()
	begin := func() *process {
		return startProxy(t, data, front.URL, "--default-proxy-tools", `["memory_store"]`)
	}
	tool := `"tools":[{"type":"function","function":{"name":"lookup","parameters":{"type":"object","properties":{}}}}]`
	body := func(messages string) string { return `{"model":"gpt-4.1",` + tool + `,"messages":[` + messages + `]}` }
	ask := func(p *process, messages string) (string, error) {
		req, err := http.NewRequestWithContext(context.Background(), "POST", p.url+"/v1/chat/completions",
			strings.NewReader(body(messages)))
		if err != nil {
			return "", err
		}
		req.Header.Set("Authorization", "Bearer sk")
		req.Header.Set("X-Mneme-Key", p.key)
		req.Header.Set("X-Mneme-Session", "killed")
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		return string(raw), err
	}
	p := begin()
	question := `{"role":"user","content":"Where is it?"}`
	broken := make(chan error, 1)
	go func() {
		_, err := ask(p, question)
		broken <- err
	}()
	<-reached
	p.kill()
	if err := <-broken; err == nil {
		t.Error("the client was answered by a program that was killed")
	}
	p = begin()
	if roles := converse(p.client(t), "s").roles("killed"); roles != "" {
		t.Errorf("killed between rounds, %q is stored", roles)
	}
	got, err := ask(p, question)
	if err != nil || !strings.Contains(got, "lookup") || strings.Contains(got, "memory_") {
		t.Fatalf("%s %v", got, err)
	}
	p.kill()
	p = begin()
	from, to := strings.Index(got, `"tool_calls":`), strings.Index(got, `"call_`)
	if from < 0 || to < 0 {
		t.Fatal(got)
	}
	id := got[to+1 : to+1+strings.Index(got[to+1:], `"`)]
	call := `{"role":"assistant","content":null,"tool_calls":[{"id":"` + id +
		`","type":"function","function":{"name":"lookup","arguments":"{}"}}]}`
	got, err = ask(p, question+","+call+`,{"role":"tool","tool_call_id":"`+id+`","content":"lost"}`)
	if err != nil || !strings.Contains(got, "It is lost.") {
		t.Fatalf("%s %v; refused: %v", got, err, whole.Refusals())
	}
	const want = "user assistant tool assistant tool assistant tool assistant"
	if roles := converse(p.client(t), "s").roles("killed"); roles != want {
		t.Errorf("stored is %q, want %q", roles, want)
	}
	requests := whole.Requests()
	if last := string(requests[len(requests)-1].Body); strings.Count(last, `\"drink\" (core)`) != 2 || len(whole.Refusals()) > 0 {
		t.Errorf("the provider got %s, refused: %v", last, whole.Refusals())
	}
}
