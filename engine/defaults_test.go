package engine_test

import (
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// The operator's default settings apply to each project that does not set them itself, also in windows.
func TestDefaultsOfTheOperator(t *testing.T) {
	set := func(pairs map[string]string) *project.Settings {
		s, err := project.Defaults(pairs)
		if err != nil {
			t.Fatal(err)
		}
		return &s
	}
	raw := memstore.New()
	open := func(pairs map[string]string) *enginetest.Kit {
		return enginetest.Open(t, raw, func(o *engine.Options) { o.Defaults = set(pairs) })
	}
	k := open(map[string]string{"history_max_messages": "1", "conversation_retention_days": "30",
		"pipeline": `[{"policy":"tool-pair-trim","config":{"marker":false}}]`})
	k.SetIn(ident.DefaultProject, `{"summary_wait_ms":7}`)
	k.Post("s", enginetest.User("one"))
	k.Post("s", enginetest.User("two"))
	if w := k.Ask(`{"session_id":"s"}`); w.Usage["history_messages"] != 1 {
		t.Errorf("%s", w.Raw)
	}
	k.MakeProject("other")
	k.SetIn("other", `{"history_max_messages":9,"conversation_retention_days":5}`)
	for id, want := range map[string][3]int{ident.DefaultProject: {1, 30, 7}, "other": {9, 5, 10000}} {
		s, err := k.Projects.Settings(t.Context(), k.Admin, id)
		if err != nil || len(s.Pipeline) != 1 {
			t.Fatal(s, err)
		}
		if got := [3]int{s.HistoryMaxMessages, *s.ConversationRetentionDays, s.SummaryWaitMS}; got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	for _, pipeline := range []string{`[{"policy":"ours"}]`, `[{"policy":"tool-pair-trim@9"}]`,
		`[{"policy":"tool-pair-trim","config":{"marker":5}}]`} {
		counter, host := enginetest.Parts()
		_, _, err := engine.New(t.Context(), engine.Options{Store: store.Seal(memstore.New()), Host: host,
			Tokens: counter, Analyser: enginetest.Analyser(), BuiltIns: enginetest.BuiltIns(),
			Defaults: set(map[string]string{"pipeline": pipeline})})
		if err == nil || !strings.Contains(err.Error(), "pipeline") {
			t.Errorf("%s is taken: %v", pipeline, err)
		}
	}
}
