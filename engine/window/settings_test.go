package window_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// What a cut leaves and what it names of the rest are settings of a project. They hold for each step whose policy has
// the key in its config, its own or a tenant's, unless the step sets it.
func TestSettingsOfCuts(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("last-turns", enginetest.Example(t, "last-turns"))
	desk(k, "s", 40)
	ask := func(settings, rest string) enginetest.Window {
		t.Helper()
		k.SetIn("default", settings)
		w := k.Ask(`{"session_id":"s","explain":true,"budget":{"max_messages":50,"max_tokens":4000}%s}`, rest)
		for _, step := range w.Pipeline {
			if step.Outcome != "ok" || step.Detail != "" {
				t.Errorf("%s: %+v", settings, step)
			}
		}
		k.Replay(w.DecisionID)
		return w
	}
	const own = `,"pipeline":[{"policy":"last-turns","config":{"turns":2,"questions":0}}]`
	const depths = `,"pipeline":[{"policy":"depth-compress"},{"policy":"tool-pair-trim"}]`
	named := func(w enginetest.Window) int {
		return strings.Count(shownOf(w)[:strings.Index(shownOf(w), "}")], "gift_card")
	}
	usual := ask(`{}`, "")
	for _, rest := range []string{"", own, depths} {
		few, many := ask(`{"history_ledger_tokens":60}`, rest), ask(`{"history_ledger_tokens":900}`, rest)
		if named(few) < 1 || named(many) <= named(few) {
			t.Errorf("%s: %d named, then %d", rest, named(few), named(many))
		}
		if none := ask(`{"history_ledger_tokens":0}`, rest); strings.Contains(shownOf(none), plan.Marker+" They") {
			t.Errorf("%s: %s", rest, clip(shownOf(none)))
		}
		if mine := ask(`{}`, strings.Replace(rest, `"questions":0`, `"questions":0,"ledger_tokens":900`, 1)); rest == own && named(mine) != named(many) {
			t.Errorf("the step's own: %d named, not %d", named(mine), named(many))
		}
	}
	k.SetIn("default", `{"history_ledger_tokens":null}`)
	deep, shallow := ask(`{"history_low_water":0.2}`, ""), ask(`{"history_low_water":0.9}`, "")
	if deep.Usage["tokens"] >= shallow.Usage["tokens"] {
		t.Errorf("a deep cut leaves %d tokens, a shallow one %d", deep.Usage["tokens"], shallow.Usage["tokens"])
	}
	ask(`{"history_low_water":0.9}`, depths)
	for _, unset := range []string{`{"history_low_water":-1,"history_ledger_tokens":-1}`, `{"history_low_water":null,"history_ledger_tokens":null}`} {
		if again := ask(unset, ""); shownOf(again) != shownOf(usual) {
			t.Errorf("%s: %s", unset, clip(shownOf(again)))
		}
	}
}

// A value that no policy could have is refused by the name of the setting, and one that the pipeline's own policy cannot
// have is left to its default.
func TestSettingsOfCutsAreChecked(t *testing.T) {
	k := enginetest.New(t)
	for _, settings := range []string{`{"history_ledger_tokens":4001}`, `{"history_ledger_tokens":-2}`, `{"history_low_water":0.05}`,
		`{"history_low_water":0}`, `{"history_low_water":1.01}`, `{"history_low_water":-0.5}`, `{"reasoning":"all"}`, `{"tool_results":"xml"}`} {
		_, err := k.Projects.PatchSettings(t.Context(), k.Admin, "default", json.RawMessage(settings))
		e := enginetest.WantKind(t, err, fault.Invalid)
		if len(e.Fields) != 1 || !strings.Contains(settings, `"`+e.Fields[0].Field+`"`) {
			t.Errorf("%s: %+v", settings, e)
		}
	}
	for _, settings := range []string{`{"history_ledger_tokens":1.5}`, `{"history_low_water":"low"}`} {
		_, err := k.Projects.PatchSettings(t.Context(), k.Admin, "default", json.RawMessage(settings))
		if e := enginetest.WantKind(t, err, fault.Invalid); len(e.Fields) != 1 || e.Fields[0].Code != "wrong_type" {
			t.Errorf("%s: %+v", settings, e)
		}
	}
}

// A project says how its windows show reasoning and tool results. A request that says so itself has its way. What was
// decided under other settings is made again as it was.
func TestSettingsOfWhatIsShown(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s", enginetest.User("where is it?"),
		`{"role":"assistant","content":null,"reasoning":"I should look.","tool_calls":[{"id":"c","type":"function","function":{"name":"look","arguments":"{\"id\":7}"}}]}`,
		enginetest.Result("c", "on its way"), enginetest.Assistant("On its way."))
	const markdown = `## Tool: look\n\n**Input:**\n{\n  \"id\": 7\n}\n\n**Output:**\non its way`
	ask := func(rest string) (shown, decision string) {
		t.Helper()
		w := k.Ask(`{"session_id":"s"%s}`, rest)
		k.Replay(w.DecisionID)
		return shownOf(w), w.DecisionID
	}
	has := func(text, part string, want bool) {
		t.Helper()
		if strings.Contains(text, part) != want {
			t.Errorf("%q is there: %v: %s", part, !want, text)
		}
	}
	plain, first := ask("")
	k.SetIn("default", `{"reasoning":"content","tool_results":"markdown"}`)
	shown, second := ask("")
	has(shown, `"reasoning_content":"I should look."`, true)
	has(shown, markdown, true)
	if asked, _ := ask(`,"reasoning":"content","tool_results":"markdown"`); asked != shown {
		t.Errorf("asked for: %s\nset: %s", asked, shown)
	}
	if asked, _ := ask(`,"reasoning":"none","tool_results":"messages"`); asked != plain {
		t.Errorf("the request's own choice: %s\nwas: %s", asked, plain)
	}
	for _, choice := range []string{"none", "pending"} {
		quiet, _ := ask(fmt.Sprintf(`,"reasoning":%q`, choice))
		has(quiet, "reasoning_content", false)
	}
	flat, _ := ask(`,"format":"text"`)
	has(flat, strings.NewReplacer(`\n`, "\n", `\"`, `"`).Replace(markdown), true)
	for _, settings := range []string{`{}`, `{"reasoning":"none"}`, `{"tool_results":"messages"}`, `{"reasoning":null,"tool_results":null}`} {
		k.SetIn("default", settings)
		k.Replay(first)
		k.Replay(second)
	}
	if again, _ := ask(""); again != plain {
		t.Errorf("without the settings: %s", again)
	}
}
