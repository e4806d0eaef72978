package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// codingAgent is a program that a person installs and points at the proxy as docs/PROXY.md says. It names its sessions,
// runs its own tools and keeps its own history.
type codingAgent struct {
	name  string
	opens string // the roles of the first question, including what the agent adds before it
	shell providers.Reply
	// configure writes settings into the agent's home and returns its environment. If mode is empty, the settings do
	// not name one.
	configure func(t *testing.T, home, url, key, mode string) []string
	// command returns the arguments that ask a question in a new session, in the session with an id, or in the last
	// one.
	command func(session, question string) []string
	// compact makes the agent summarise the last session and asks a question after that; behind has the roles of that
	// turn.
	compact func(run asking, question, want string)
	behind  string
	// read extracts the session's id and the answer from the output.
	read func(t *testing.T, printed []byte) (session, answer string)
}

// asking asks a question in a session, expects an answer, and returns the id of the session that the agent reports.
type asking func(session, question, want string, more ...string) string

// latest stands for the most recently used session.
const latest = "latest"

// claudeCode does not retry calls and reports nothing to its maker, so that a test fails early and contacts nobody
// else.
var claudeCode = codingAgent{
	name:  "Claude Code",
	opens: "user",
	shell: providers.Use("Bash", `{"command":"echo $((6*7))","description":"Multiply"}`),
	configure: func(t *testing.T, home, url, key, mode string) []string {
		headers := "X-Mneme-Key: " + key
		if mode != "" {
			headers += "\nX-Mneme-Mode: " + mode
		}
		return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=sk-client", "ANTHROPIC_CUSTOM_HEADERS=" + headers,
			"CLAUDE_CODE_GATEWAY_HINT_HEADERS=1", "CLAUDE_CODE_MAX_RETRIES=0",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1"}
	},
	command: func(session, question string) []string {
		// The package has this launcher for installations that do not run its scripts.
		args := []string{"@anthropic-ai/claude-code/cli-wrapper.cjs", "-p", question, "--model", "claude-opus-5-5",
			"--output-format", "json", "--allowedTools", "Bash,Agent"}
		switch session {
		case "":
			return args
		case latest:
			return append(args, "--continue")
		}
		return append(args, "--resume", session)
	},
	behind: "user",
	compact: func(run asking, question, want string) {
		run(latest, "/compact", "")
		run(latest, question, want)
	},
	read: func(t *testing.T, printed []byte) (session, answer string) {
		var result struct {
			Session string `json:"session_id"`
			Result  string
		}
		if err := json.Unmarshal(printed, &result); err != nil {
			t.Fatalf("%v in %s", err, printed)
		}
		return result.Session, result.Result
	},
}

// codex runs commands without its own sandbox, which needs rights that containers do not have.
var codex = codingAgent{
	name:  "Codex",
	opens: "user user", // the first describes the working directory
	shell: providers.Use("exec_command", `{"cmd":"echo $((6*7))"}`),
	configure: func(t *testing.T, home, url, key, mode string) []string {
		headers := fmt.Sprintf(`"X-Mneme-Key" = %q`, key)
		if mode != "" {
			headers += fmt.Sprintf(`, "X-Mneme-Mode" = %q`, mode)
		}
		config := fmt.Sprintf(`model = "gpt-5.6"
model_provider = "mneme"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.mneme]
name = "Mneme"
base_url = %q
env_key = "OPENAI_API_KEY"
wire_api = "responses"
http_headers = { %s }
request_max_retries = 0
stream_max_retries = 0
`, url+"/v1", headers)
		folder := filepath.Join(home, ".codex")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "config.toml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"CODEX_HOME=" + folder, "OPENAI_API_KEY=sk-client"}
	},
	command: func(session, question string) []string {
		args := []string{"@openai/codex/bin/codex.js", "exec"}
		switch session {
		case "":
		case latest:
			args = append(args, "resume", "--last")
		default:
			args = append(args, "resume", session)
		}
		return append(args, "--skip-git-repo-check", "--json", question)
	},
	behind: "user user", // the first is the summary
	compact: func(run asking, question, want string) {
		run(latest, question, want, "-c", "model_auto_compact_token_limit=1000")
	},
	read: func(t *testing.T, printed []byte) (session, answer string) {
		for line := range bytes.Lines(printed) {
			var event struct {
				Thread string `json:"thread_id"`
				Item   struct{ Type, Text string }
			}
			if err := json.Unmarshal(line, &event); err != nil {
				t.Fatalf("%v in %s", err, printed)
			}
			session += event.Thread
			if event.Item.Type == "agent_message" {
				answer += event.Item.Text
			}
		}
		return session, answer
	},
}

// TestCodingAgents runs unmodified Claude Code and Codex through the proxy with a provider that refuses what the real
// ones refuse: a question, a session continued with a call of the shell, and continued once more. Each exchange must be
// stored once, in the session that the program names, whether Mneme observes or assembles.
func TestCodingAgents(t *testing.T) {
	t.Parallel()
	folder := clientsFolder(t)
	for _, agent := range []codingAgent{claudeCode, codex} {
		for _, mode := range []string{"", "assemble"} {
			t.Run(strings.TrimSpace(agent.name+" "+mode), func(t *testing.T) {
				t.Parallel()
				provider := providers.Start(t)
				c := behindProxy(t, provider.URL)
				run := agent.start(t, folder, c, mode)

				provider.Script(providers.Think("Easy.", providers.Say("Hello.")))
				session := run("", "What is there?", "Hello.")
				provider.Script(providers.Think("A tool.", agent.shell), providers.Think("Done.", providers.Say("It is 42.")))
				if resumed := run(session, "How much is it?", "It is 42."); resumed != session {
					t.Errorf("resumed as %s, want %s", resumed, session)
				}
				provider.Script(providers.Think("Bye.", providers.Say("Goodbye.")))
				if resumed := run(latest, "And now?", "Goodbye."); resumed != session {
					t.Errorf("continued as %s, want %s", resumed, session)
				}

				turns := c.turns(session)
				want := []string{agent.opens + " assistant", "user assistant tool assistant", "user assistant"}
				if got := turns.roles(""); strings.Join(got, ", ") != strings.Join(want, ", ") {
					t.Errorf("stored are the turns %q, want %q", got, want)
				}
				if results := turns.texts("tool"); len(results) != 1 || !strings.Contains(results[0], "42") {
					t.Errorf("the tool's results are %q", results)
				}
				c.holdAgent(provider, session, mode, 4, 3)
				if n := len(provider.Requests()); n != 4 {
					t.Errorf("%d calls of the provider, want 4", n)
				}
			})
		}
	}
}

// TestCodingAgentsCompact has both agents summarise their history twice. The session continues, none of it is
// superseded or stored twice, and the calls for the summaries are not stored.
func TestCodingAgentsCompact(t *testing.T) {
	t.Parallel()
	folder := clientsFolder(t)
	for _, agent := range []codingAgent{claudeCode, codex} {
		t.Run(agent.name, func(t *testing.T) {
			t.Parallel()
			provider := providers.Start(t)
			c := behindProxy(t, provider.URL)
			run := agent.start(t, folder, c, "")
			provider.Script(providers.Say("One."), providers.Say("Two."))
			session := run("", "First?", "One.")
			run(latest, "Second?", "Two.")
			want := []string{agent.opens + " assistant", "user assistant"}
			for _, answer := range []string{"Three.", "Four.", "Five."} {
				if answer == "Four." {
					provider.Script(providers.Say(answer))
					run(latest, "And then?", answer)
					want = append(want, "user assistant")
					continue
				}
				provider.Script(providers.Say("<summary>Much was said.</summary>"), providers.Say(answer))
				agent.compact(run, "What do you know?", answer)
				want = append(want, agent.behind+" assistant")
			}
			turns := c.turns(session)
			if got := turns.roles(""); strings.Join(got, ", ") != strings.Join(want, ", ") {
				t.Errorf("stored are the turns %q, want %q", got, want)
			}
			if got := strings.Join(turns.texts("assistant"), " "); got != "One. Two. Three. Four. Five." {
				t.Errorf("stored are the answers %q", got)
			}
			c.holdAgent(provider, session, "", 5, 5)
			if n := len(provider.Requests()); n != 7 {
				t.Errorf("%d calls of the provider, want 7", n)
			}
		})
	}
}

// TestSubagentOfClaudeCode has Claude Code ask a sub-agent, whose history is stored in the same session as a
// delegation.
func TestSubagentOfClaudeCode(t *testing.T) {
	t.Parallel()
	folder := clientsFolder(t)
	provider := providers.Start(t)
	c := behindProxy(t, provider.URL)
	run := claudeCode.start(t, folder, c, "")
	provider.Script(providers.Use("Agent", `{"description":"Look around","prompt":"Look around.",
		"subagent_type":"general-purpose","run_in_background":false}`),
		providers.Say("I looked."), providers.Say("It looked."))
	session := run("", "Let another one look.", "It looked.")
	turns := c.turns(session)
	if got := turns.roles(""); len(got) != 1 || got[0] != "user assistant tool assistant" {
		t.Errorf("the turns of the main agent are %q", got)
	}
	var delegated []string
	for _, m := range turns {
		if m.Delegation != "" {
			delegated = turns.roles(m.Delegation)
		}
	}
	if len(delegated) != 1 || delegated[0] != "user assistant" {
		t.Errorf("the turns of the sub-agent are %q", delegated)
	}
	c.holdAgent(provider, session, "", 3, 2)
}

// start writes an agent's settings into a new home, and returns a function that asks it questions there.
func (a *codingAgent) start(t *testing.T, folder string, c *conversation, mode string) asking {
	t.Helper()
	home := t.TempDir()
	// The tests may be run by such an agent, so its environment is left out. No other host can be reached, because the
	// proxy for them is a port on which nobody listens.
	env := append(a.configure(t, home, c.url, c.key, mode), "PATH="+os.Getenv("PATH"), "HOME="+home,
		"HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1")
	return func(session, question, want string, more ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		args := append(a.command(session, question), more...)
		args[0] = filepath.Join(folder, "node_modules", filepath.FromSlash(args[0]))
		cmd := exec.CommandContext(ctx, "node", args...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = home, env, time.Second
		var printed, complained bytes.Buffer
		cmd.Stdout, cmd.Stderr = &printed, &complained
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s%s", a.name, err, printed.String(), complained.String())
		}
		id, answer := a.read(t, printed.Bytes())
		if answer != want {
			t.Errorf("%s answered %q, want %q", a.name, answer, want)
		}
		return id
	}
}

// storedMessages are a session's messages, in order.
type storedMessages []struct {
	Turn       int
	Role       string
	Content    string
	Delegation string `json:"delegation_id"`
}

func (c *conversation) turns(session string) (messages storedMessages) {
	c.t.Helper()
	var list struct{ Data storedMessages }
	c.do("GET", "/api/v1/projects/default/sessions/"+session+"/messages?limit=1000", nil).want(200).into(&list)
	return list.Data
}

// roles returns the roles of the messages in each turn of a delegation; the main agent's is "".
func (l storedMessages) roles(delegation string) (turns []string) {
	last := 0
	for _, m := range l {
		switch {
		case m.Delegation != delegation:
			continue
		case m.Turn != last:
			turns = append(turns, m.Role)
		default:
			turns[len(turns)-1] += " " + m.Role
		}
		last = m.Turn
	}
	return turns
}

func (l storedMessages) texts(role string) (texts []string) {
	for _, m := range l {
		if m.Role == role {
			texts = append(texts, m.Content)
		}
	}
	return texts
}

// holdAgent checks all calls that left a decision: they belong to one session and one mode, the given number of them
// ended a turn while the others called tools, and the provider refused none and received no header or key of Mneme's.
func (c *conversation) holdAgent(provider *providers.Server, session, mode string, calls, turns int) {
	c.t.Helper()
	if mode == "" {
		mode = "observe"
	}
	var decisions struct {
		Data []struct {
			Session string `json:"session_id"`
			Stored  *bool  // nil if the turn continues with results of tools
			Call    struct {
				Mode string
				Turn int
			}
		}
	}
	c.do("GET", "/api/v1/projects/default/decisions?limit=1000", nil).want(200).into(&decisions)
	if len(decisions.Data) != calls {
		c.t.Errorf("%d calls left a decision, want %d", len(decisions.Data), calls)
	}
	ended := 0
	for _, d := range decisions.Data {
		if d.Session != session || d.Call.Mode != mode || d.Stored != nil && !*d.Stored {
			c.t.Errorf("a call was %+v, want one of %s in mode %s that is stored", d, session, mode)
		}
		if d.Call.Turn > 0 {
			ended++
		}
	}
	if ended != turns {
		c.t.Errorf("%d calls ended a turn, want %d", ended, turns)
	}
	c.sawNothingOfMneme(provider)
}
