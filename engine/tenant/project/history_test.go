package project_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

func history(k *enginetest.Kit, limit int) (all []project.SettingsChange) {
	k.Helper()
	for cursor := ""; ; {
		page, err := k.Projects.SettingsHistory(k.Context(), k.Admin, ident.DefaultProject, records.Page{Limit: limit, Cursor: cursor})
		if err != nil {
			k.Fatal(err)
		}
		all = append(all, page.Data...)
		if !page.HasMore {
			return all
		}
		cursor = *page.NextCursor
	}
}

// TestSettingsHistory expects each change once, with the values before and after. Applying all of them yields the
// settings.
func TestSettingsHistory(t *testing.T) {
	k := enginetest.New(t)
	for _, patch := range []string{`{"history_max_tokens":500,"tokenizer":"cl100k_base"}`, `{"history_max_tokens":500}`,
		`{"history_max_tokens":600}`, `{"tokenizer":null,"pipeline":[{"policy":"tool-pair-trim"}]}`, `{"tokenizer":null}`} {
		k.SetIn(ident.DefaultProject, patch)
		k.Advance(time.Minute)
	}
	_, err := k.Projects.PatchSettings(t.Context(), k.Admin, ident.DefaultProject, json.RawMessage(`{"history_max_tokens":-1}`))
	enginetest.RefusedWith(t, err, fault.Invalid, "out_of_range")
	got := history(k, 2)
	want := `[[{pipeline  [{"policy":"tool-pair-trim"}]} {tokenizer "cl100k_base" }] ` +
		`[{history_max_tokens 500 600}] [{history_max_tokens  500} {tokenizer  "cl100k_base"}]]`
	var shown []string
	for _, change := range got {
		text := "["
		for i, c := range change.Changes {
			null := func(b json.RawMessage) string {
				if string(b) == "null" {
					return ""
				}
				return string(b)
			}
			if i > 0 {
				text += " "
			}
			text += fmt.Sprintf("{%s %s %s}", c.Setting, null(c.Before), null(c.After))
		}
		shown = append(shown, text+"]")
		if change.Role != "tenant_admin" || change.ID == "" || change.At.IsZero() {
			t.Errorf("%+v", change)
		}
	}
	if fmt.Sprint(shown) != want {
		t.Errorf("the history is\n%v\nnot\n%v", shown, want)
	}
	for _, f := range k.Verify().Findings {
		t.Errorf("%+v", f)
	}
}

// TestSettingsHistoryIsBounded expects the oldest changes to be dropped, and all of them to be deleted with the
// project.
func TestSettingsHistoryIsBounded(t *testing.T) {
	k := enginetest.New(t)
	for i := range 505 {
		k.SetIn(ident.DefaultProject, fmt.Sprintf(`{"history_max_tokens":%d}`, 1000+i))
		k.Advance(time.Second)
	}
	got := history(k, 1000)
	if len(got) != 500 || string(got[0].Changes[0].After) != "1504" || string(got[499].Changes[0].After) != "1005" {
		t.Fatalf("%d changes are kept, from %s to %s", len(got), got[len(got)-1].Changes[0].After, got[0].Changes[0].After)
	}
	if err := k.DeleteProject(t.Context(), k.Admin, ident.DefaultProject); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	for _, it := range k.Everything(k.Admin.Tenant) {
		if records.SettingsChange.Is(it.Key) {
			t.Fatal("a change outlives its project")
		}
	}
}

// TestSettingsThatWereReadBefore expects a change to be made only if the settings are as the caller knows them.
func TestSettingsThatWereReadBefore(t *testing.T) {
	k := enginetest.New(t)
	read := func() string {
		t.Helper()
		s, err := k.Projects.Settings(t.Context(), k.Admin, ident.DefaultProject)
		if err != nil {
			t.Fatal(err)
		}
		tag, err := s.Tag()
		if err != nil {
			t.Fatal(err)
		}
		return tag
	}
	patch := func(tag, patch string) error {
		_, err := k.Projects.PatchSettingsIf(t.Context(), k.Admin, ident.DefaultProject, json.RawMessage(patch),
			func(now string) bool { return now == tag })
		return err
	}
	first := read()
	if err := patch(first, `{"history_max_tokens":700}`); err != nil {
		t.Fatal(err)
	}
	second := read()
	if first == second {
		t.Fatal("other settings have the same tag")
	}
	enginetest.RefusedWith(t, patch(first, `{"history_max_tokens":800}`), fault.Precondition, "settings_changed")
	if read() != second {
		t.Error("a refused change was made")
	}
	if err := patch(second, `{"history_max_tokens":null}`); err != nil || read() != first {
		t.Errorf("back: %v", err)
	}
}
