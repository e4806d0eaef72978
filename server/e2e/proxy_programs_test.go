package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// cliAgent is a coding agent that a person points at the proxy as docs/PROXY.md says. It runs its own tools, keeps its
// own history and finds its last session by itself.
type cliAgent struct {
	name    string
	clients bool                        // scripts/proxy-clients installs it without --programs
	shell   func(n int) providers.Reply // a call of its shell, number n; nil: it has no tools
	// configure writes settings into the agent's home and returns its environment. at is the proxy's address, and named
	// the same with a project and a session in its path.
	configure func(t *testing.T, home, at, named, key string) []string
	// command returns the program and its arguments. again continues the last session.
	command func(folder, question string, again bool) []string
}

// mnemeHeader is the header that each agent is told to send.
func mnemeHeader(key string) map[string]any { return map[string]any{"X-Mneme-Key": key} }

// put writes a JSON file.
func put(t *testing.T, path string, v any) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// opencode speaks to three kinds of upstreams, each by another package of the AI SDK.
func opencode(pack, model string, more map[string]any) cliAgent {
	return cliAgent{
		name: "opencode " + model,
		shell: func(n int) providers.Reply {
			return providers.Use("bash", fmt.Sprintf(`{"command":"echo step-%d","description":"Step %d"}`, n, n))
		},
		configure: func(t *testing.T, home, at, _, key string) []string {
			known := map[string]any{"name": model, "tool_call": true, "reasoning": true, "limit": map[string]any{"context": 200_000, "output": 8_000}}
			for name, value := range more {
				known[name] = value
			}
			put(t, filepath.Join(home, ".config", "opencode", "opencode.json"), map[string]any{
				"model": "mneme/" + model, "small_model": "mneme/" + model, "share": "disabled", "autoupdate": false,
				"permission": map[string]any{"bash": "allow"},
				"provider": map[string]any{"mneme": map[string]any{"npm": pack, "name": "Mneme", "models": map[string]any{model: known},
					"options": map[string]any{"baseURL": at + "/v1", "apiKey": "sk-client", "headers": mnemeHeader(key)}}},
			})
			return []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
				"OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"), "XDG_DATA_HOME=" + filepath.Join(home, ".local", "share"),
				"XDG_CACHE_HOME=" + filepath.Join(home, ".cache"), "XDG_STATE_HOME=" + filepath.Join(home, ".local", "state")}
		},
		command: func(folder, question string, again bool) []string {
			args := []string{filepath.Join(folder, "node_modules", "opencode-linux-x64", "bin", "opencode"), "run"}
			if again {
				args = append(args, "--continue")
			}
			return append(args, question)
		},
	}
}

// installed makes a cliAgent of Claude Code or Codex, which scripts/proxy-clients installs.
func installed(a codingAgent, shell func(n int) providers.Reply) cliAgent {
	return cliAgent{
		name: a.name, clients: true, shell: shell,
		configure: func(t *testing.T, home, at, _, key string) []string { return a.configure(t, home, at, key, "") },
		command: func(folder, question string, again bool) []string {
			session := ""
			if again {
				session = latest
			}
			args := a.command(session, question)
			args[0] = filepath.Join(folder, "node_modules", filepath.FromSlash(args[0]))
			return append([]string{"node"}, args...)
		},
	}
}

// cliAgents are the agents of the long form.
var cliAgents = []cliAgent{
	installed(claudeCode, func(n int) providers.Reply {
		return providers.Use("Bash", fmt.Sprintf(`{"command":"echo step-%d","description":"Step %d"}`, n, n))
	}),
	installed(codex, func(n int) providers.Reply {
		return providers.Use("exec_command", fmt.Sprintf(`{"cmd":"echo step-%d"}`, n))
	}),
	opencode("@ai-sdk/openai-compatible", "deepseek-v4", map[string]any{"interleaved": map[string]any{"field": "reasoning_content"}}),
	opencode("@ai-sdk/openai", "gpt-5.6", nil),
	opencode("@ai-sdk/anthropic", "claude-opus-5-5", nil),
	{
		name: "pi",
		shell: func(n int) providers.Reply {
			return providers.Use("bash", fmt.Sprintf(`{"command":"echo step-%d"}`, n))
		},
		configure: func(t *testing.T, home, at, _, key string) []string {
			put(t, filepath.Join(home, ".pi", "agent", "models.json"), map[string]any{"providers": map[string]any{"mneme": map[string]any{
				"baseUrl": at + "/v1", "api": "openai-completions", "apiKey": "sk-client", "headers": mnemeHeader(key),
				"compat": map[string]any{"sendSessionAffinityHeaders": true}, "models": []any{map[string]any{"id": "gpt-4.1"}}}}})
			return []string{"PI_OFFLINE=1"}
		},
		command: func(folder, question string, again bool) []string {
			args := []string{"node", filepath.Join(folder, "node_modules", "@mariozechner", "pi-coding-agent", "dist", "cli.js"),
				"--provider", "mneme", "--model", "gpt-4.1", "-p"}
			if again {
				args = append(args, "--continue")
			}
			return append(args, question)
		},
	},
	{
		name: "aider",
		configure: func(t *testing.T, home, _, named, key string) []string {
			put(t, filepath.Join(home, ".aider.model.settings.yml"), []any{map[string]any{"name": "openai/gpt-4.1", "edit_format": "diff",
				"extra_params": map[string]any{"extra_headers": mnemeHeader(key)}}})
			return []string{"OPENAI_API_BASE=" + named + "/v1", "OPENAI_API_KEY=sk-client", "AIDER_ANALYTICS=false", "LITELLM_LOCAL_MODEL_COST_MAP=True"}
		},
		command: func(folder, question string, again bool) []string {
			args := []string{filepath.Join(folder, "aider", "bin", "aider"), "--model", "openai/gpt-4.1", "--no-git", "--yes-always", "--no-check-update",
				"--analytics-disable", "--no-show-model-warnings", "--no-pretty", "--no-show-release-notes", "--map-tokens", "0"}
			if again {
				args = append(args, "--restore-chat-history")
			}
			return append(args, "--message", question)
		},
	},
}

// programsFolder is where scripts/proxy-clients --programs has installed the agents.
func programsFolder(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("MNEME_PROGRAMS")
	if _, err := os.Stat(filepath.Join(folder, "whole")); folder == "" || err != nil {
		if campaign.Long() && os.Getenv("CI") == "true" {
			t.Fatal("the programs are not installed: MNEME_PROGRAMS=$(scripts/proxy-clients --programs)")
		}
		t.Skip("install the programs: export MNEME_PROGRAMS=$(scripts/proxy-clients --programs)")
	}
	return folder
}

// TestCampaignPrograms has each agent work through many calls of its shell, kills Mneme, starts it again on the same
// data, and has the agent continue its session. Each message is stored once, in one session, and the provider, which
// refuses what the real ones refuse, refuses nothing.
func TestCampaignPrograms(t *testing.T) {
	if !campaign.Long() {
		t.Skip("it takes minutes: MNEME_CAMPAIGN=long")
	}
	for i := range cliAgents {
		a := &cliAgents[i]
		for _, mode := range []string{"observe", "assemble"} {
			t.Run(a.name+"/"+mode, func(t *testing.T) {
				if a.clients {
					a.works(t, clientsFolder(t), mode)
				} else {
					a.works(t, programsFolder(t), mode)
				}
			})
		}
	}
}

func (a *cliAgent) works(t *testing.T, folder, mode string) {
	provider := providers.Start(t)
	provider.Aside("title generator", providers.Say("A title"))
	data, home := t.TempDir(), t.TempDir()
	p := startProxy(t, data, provider.URL)
	c := converse(p.client(t), "s")
	c.do("PATCH", "/api/v1/projects/default/settings", object{"proxy_mode": mode}).want(200)
	env := append(a.configure(t, home, c.url, c.url+"/p/default/s/work", c.key), "PATH="+os.Getenv("PATH"), "HOME="+home,
		"HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1,localhost")
	steps := 0
	ask := func(question, answer string, tools int) {
		t.Helper()
		for range tools {
			steps++
			provider.Script(providers.Think(fmt.Sprintf("Step %d comes next.", steps), a.shell(steps)))
		}
		provider.Script(providers.Think("Enough.", providers.Say(answer)))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		args := a.command(folder, question, steps > tools || len(provider.Requests()) > 0)
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = home, env, time.Second
		printed, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(printed, []byte(answer)) {
			t.Fatalf("%s: %v\n%s", question, err, printed)
		}
	}
	tools := []int{12, 0, 2}
	if a.shell == nil {
		tools = []int{0, 0, 0}
	}
	answers := []string{"The first work is done.", "The second answer, too.", "And that was the third."}
	for i, question := range []string{"Work through the list.", "What was the last step?", "Take two more steps."} {
		if i == 1 { // Mneme is killed and started again, where the agent looks for it.
			at, err := url.Parse(c.url)
			if err != nil {
				t.Fatal(err)
			}
			p.kill()
			p = startProxy(t, data, provider.URL, "--listen", at.Host)
		}
		ask(question, answers[i], tools[i])
	}
	a.check(t, c, provider, mode, tools, answers)
}

// check looks at what is stored and at what the provider saw.
func (a *cliAgent) check(t *testing.T, c *conversation, provider *providers.Server, mode string, tools []int, answers []string) {
	t.Helper()
	var list struct {
		Data []struct{ ID string }
	}
	c.do("GET", "/api/v1/projects/default/sessions?limit=100", nil).want(200).into(&list)
	var session string
	for _, s := range list.Data {
		if !strings.HasSuffix(s.ID, "~side") {
			if session != "" {
				t.Errorf("the conversation is in %s and %s", session, s.ID)
			}
			session = s.ID
		}
	}
	if session == "" {
		t.Fatal("no session is stored")
	}
	turns, called := c.turns(session), 0
	for _, n := range tools {
		called += n
	}
	results, said := strings.Join(turns.texts("tool"), "\n"), strings.Join(turns.texts("assistant"), "\n")
	if got := len(turns.texts("tool")); got != called {
		t.Errorf("%d results are stored, of %d calls: %q", got, called, turns.roles(""))
	}
	for n := range called {
		if strings.Count(results, fmt.Sprintf("step-%d\n", n+1))+strings.Count(results+"\n", fmt.Sprintf("step-%d\n", n+1)) == 0 {
			t.Errorf("the result of step %d is missing: %q", n+1, results)
		}
	}
	for _, answer := range answers {
		if strings.Count(said, answer) != 1 {
			t.Errorf("the answer %q is stored %d times", answer, strings.Count(said, answer))
		}
	}
	c.sawNothingOfMneme(provider)
}
