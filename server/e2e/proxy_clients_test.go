package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// libraries are the providers' own clients, with their APIs and scenarios.
var libraries = []struct {
	name      string
	api       providers.API
	scenarios string
	errors    string // its exceptions for a 429, a 500, an error within a stream, and an unknown key of Mneme's
}{
	{"openai-chat", providers.Chat, "text stream tools structured image errors retry abort",
		"RateLimitError 429, InternalServerError 500, APIError , AuthenticationError 401"},
	{"openai-responses", providers.Responses, "text stream tools structured image thinks errors retry abort", // returns the events as they are
		"RateLimitError 429, InternalServerError 500, no error, AuthenticationError 401"},
	{"anthropic", providers.Messages, "text stream tools structured image thinks errors retry abort",
		"RateLimitError 429, InternalServerError 500, APIStatusError 200, AuthenticationError 401"},
	{"langchain", providers.Chat, "text stream tools structured image errors retry abort",
		"OpenAIRateLimitError 429, OpenAIAPIError 500, APIError , OpenAIAuthenticationError 401"},
	{"langgraph", providers.Chat, "text tools goes_on", ""},
	{"pydantic-ai", providers.Chat, "text stream tools goes_on", ""},
	{"litellm", providers.Chat, "text stream tools goes_on", ""},
	{"openai-agents", providers.Responses, "text stream tools", ""},
	{"openai-node-chat", providers.Chat, "text stream tools structured image errors retry abort",
		"RateLimitError 429, InternalServerError 500, APIError , AuthenticationError 401"},
	{"openai-node-responses", providers.Responses, "text stream tools structured image thinks errors retry abort",
		"RateLimitError 429, InternalServerError 500, no error, AuthenticationError 401"},
	{"anthropic-node", providers.Messages, "text stream tools image thinks errors retry abort",
		"RateLimitError 429, InternalServerError 500, APIError , AuthenticationError 401"},
	{"ai-chat", providers.Chat, "text stream tools structured image errors retry", "APICallError 429, APICallError 500, APICallError 401"},
	{"ai-responses", providers.Responses, "text stream tools structured image errors retry", "APICallError 429, APICallError 500, APICallError 401"},
	{"ai-anthropic", providers.Messages, "text stream tools image errors retry", "APICallError 429, APICallError 500, APICallError 401"},
}

// talks has for each scenario the provider's answers, the result that the client must report, and the roles that must
// be stored.
var talks = map[string]struct {
	script func(api providers.API) []providers.Reply
	want   string
	stored string
}{
	"text":   {says("Hello."), "Hello.", "user assistant"},
	"stream": {says("Words that come one by one."), "Words that come one by one.", "user assistant"},
	"tools": {func(providers.API) []providers.Reply {
		both := providers.Use("weather", `{"city":"Oslo"}`)
		both.Parts = append(both.Parts, providers.Use("weather", `{"city":"Rome"}`).Parts...)
		return []providers.Reply{both, providers.Say("Both done.")}
	}, "2 Both done.", "user assistant tool tool assistant"},
	"structured": {says(`{"city":"Oslo","degrees":4}`), "4", "user assistant"},
	"image":      {says("A pixel."), "A pixel.", "user assistant"},
	"thinks": {func(providers.API) []providers.Reply {
		return []providers.Reply{providers.Think("hm", providers.Say("I thought.")), providers.Think("yes", providers.Say("Sure."))}
	}, "I thought. Sure.", "user assistant user assistant"},
	"goes_on": {func(providers.API) []providers.Reply {
		return []providers.Reply{providers.Say("Hello."), providers.Say("Still hello.")}
	}, "Hello. Still hello.", "user assistant user assistant"},
	"errors": {func(api providers.API) []providers.Reply {
		return []providers.Reply{{Fail: providers.RateLimited(api)}, {Fail: providers.ServerError(api)},
			{Parts: providers.Say("Half").Parts, Break: providers.ServerError(api)}}
	}, "", ""},
	"retry": {func(api providers.API) []providers.Reply {
		return []providers.Reply{{Fail: providers.ServerError(api)}, providers.Say("At last.")}
	}, "At last.", "user assistant"},
	"abort": {func(providers.API) []providers.Reply {
		long := providers.Say(strings.Repeat("A long text that nobody reads to its end. ", 100))
		return []providers.Reply{long, long, providers.Say("Still here.")}
	}, "Still here.", "user assistant"},
}

func says(text string) func(providers.API) []providers.Reply {
	return func(providers.API) []providers.Reply { return []providers.Reply{providers.Say(text)} }
}

// clientsFolder returns the folder in which scripts/proxy-clients has installed the libraries, Claude Code and Codex.
func clientsFolder(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("MNEME_CLIENTS")
	if _, err := os.Stat(filepath.Join(folder, "whole")); folder == "" || err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("the libraries are not installed: MNEME_CLIENTS=$(scripts/proxy-clients)")
		}
		t.Skip("install the libraries: export MNEME_CLIENTS=$(scripts/proxy-clients)")
	}
	return folder
}

// TestLibrariesOfProviders runs the providers' own unmodified libraries through the proxy with a provider that refuses
// what the real ones refuse. Each scenario's exchange must be stored once, and nothing of failed calls.
func TestLibrariesOfProviders(t *testing.T) {
	t.Parallel()
	folder := clientsFolder(t)
	for _, runtime := range []string{"py", "mjs"} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			provider := providers.Start(t)
			c := behindProxy(t, provider.URL)
			for _, l := range libraries {
				if (strings.HasPrefix(l.name, "ai-") || strings.Contains(l.name, "-node")) != (runtime == "mjs") {
					continue
				}
				scenarios := strings.Fields(l.scenarios)
				for _, name := range scenarios {
					replies := talks[name].script(l.api)
					if name == "errors" && strings.HasPrefix(l.name, "ai-") { // it reports errors within streams by a callback
						replies = replies[:2]
					}
					provider.Script(replies...)
				}
				got := c.library(folder, runtime, l.name, scenarios)
				for _, name := range scenarios {
					want := talks[name].want
					if name == "errors" {
						want = l.errors
					}
					if got[name] != want {
						t.Errorf("%s: %s came to %q, want %q", l.name, name, got[name], want)
					}
					if roles := c.stored("run-"+l.name+"-"+name, talks[name].stored); roles != talks[name].stored {
						t.Errorf("%s: of %s is stored %q, want %q", l.name, name, roles, talks[name].stored)
					}
				}
				provider.Drop() // what a library that failed has left
			}
			c.sawNothingOfMneme(provider)
			retries := 0
			for _, seen := range provider.Requests() {
				if seen.Header.Get("X-Stainless-Retry-Count") == "1" {
					retries++
				}
			}
			if retries == 0 {
				t.Error("no library has tried again")
			}
		})
	}
}

// sawNothingOfMneme fails the test if the provider refused a request, or received a header or a key of Mneme's.
func (c *conversation) sawNothingOfMneme(provider *providers.Server) {
	c.t.Helper()
	for _, refusal := range provider.Refusals() {
		c.t.Error(refusal)
	}
	for _, seen := range provider.Requests() {
		if bytes.Contains(seen.Body, []byte(c.key)) {
			c.t.Errorf("the provider saw the key in the body of %s", seen.Path)
		}
		for name, values := range seen.Header {
			if strings.HasPrefix(name, "X-Mneme") || strings.Contains(strings.Join(values, " "), c.key) {
				c.t.Errorf("the provider saw %s: %q", name, values)
			}
		}
	}
}

// behindProxy starts the program with a provider that all projects use for both protocols.
func behindProxy(t *testing.T, provider string, args ...string) *conversation {
	t.Helper()
	return converse(startProxy(t, t.TempDir(), provider, args...).client(t), "s")
}

// startProxy is behindProxy for a given data folder.
func startProxy(t testing.TB, data, provider string, args ...string) *process {
	t.Helper()
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := launchWith(binary, data, []string{"OPENAI_BASE_URL=" + provider + "/v1", "ANTHROPIC_BASE_URL=" + provider}, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// library runs scenarios of one library and returns their results.
func (c *conversation) library(folder, runtime, name string, scenarios []string) map[string]string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	program := filepath.Join(folder, "venv", "bin", "python")
	if runtime == "mjs" {
		program = "node"
	}
	script := "clients." + runtime
	raw, err := os.ReadFile(filepath.Join("testdata", "clients", script))
	if err != nil {
		c.t.Fatal(err)
	}
	// Node looks for libraries relative to the script.
	at := filepath.Join(folder, fmt.Sprintf("%d-%s", os.Getpid(), script))
	if err := os.WriteFile(at, raw, 0o600); err != nil {
		c.t.Fatal(err)
	}
	defer os.Remove(at)
	cmd := exec.CommandContext(ctx, program, append([]string{at, name}, scenarios...)...)
	cmd.Env = append(environment(), "MNEME_URL="+c.url, "MNEME_KEY="+c.key, "MNEME_RUN=run", "OPENAI_AGENTS_DISABLE_TRACING=1",
		"LANGSMITH_TRACING=false", "AI_SDK_LOG_WARNINGS=false")
	cmd.WaitDelay = time.Second
	var said, complained strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &complained
	if err := cmd.Run(); err != nil {
		c.t.Errorf("%s: %v\n%s%s", name, err, said.String(), complained.String())
	}
	out := map[string]string{}
	for line := range strings.Lines(said.String()) {
		scenario, result, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		out[scenario] = result
	}
	return out
}

// stored waits until the stored roles are those expected, and returns them. A streaming client gets the end of its
// stream after two seconds, even if the exchange is stored later.
func (c *conversation) stored(session, want string) (roles string) {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if roles = c.roles(session); roles == want || time.Now().After(end) {
			return roles
		}
	}
}

// roles returns the roles of a session's stored messages, in order.
func (c *conversation) roles(session string) string {
	c.t.Helper()
	var list struct{ Data []struct{ Role string } }
	r := c.do("GET", "/api/v1/projects/default/sessions/"+session+"/messages?limit=1000", nil)
	if r.status == 404 {
		return ""
	}
	r.want(200).into(&list)
	var roles []string
	for _, m := range list.Data {
		roles = append(roles, m.Role)
	}
	return strings.Join(roles, " ")
}
