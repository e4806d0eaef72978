// Package demo fills a project with examples: conversations of a bicycle shop's agents, their memories, a board, a
// policy, and the decisions about their windows. It plays the agents over the public API alone, so everything in the
// demo is what a user's own agents would make. Only times depend on when it is filled.
package demo

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"go.yaml.in/yaml/v3"
)

// Project is the project of the demo.
const Project = "demo"

// The project's name records how far an earlier run came. A project of another name does not belong to the demo.
const (
	filling = "Demo (being filled)"
	filled  = "Demo"
)

// policyName is the demo's policy. Its first version goes live; the second is there to be tried and replayed.
const policyName = "latest-only"

//go:embed sessions/*.yaml things.yaml latest-only-1/latest-only-1.wasm latest-only/latest-only.wasm
var files embed.FS

var modules = [...]string{"latest-only-1/latest-only-1.wasm", "latest-only/latest-only.wasm"}

// things are memories and a board.
type things struct {
	Memories []struct {
		Key, Category, Session string
		Tags                   []string
		Importance             *float64
		Lasts                  time.Duration
		Said                   []string
	}
	Board struct {
		ID, Name string
		Agents   []struct {
			ID, Name string
			Lead     bool
		}
		Values []struct {
			Key   string
			Value any
		}
		Entries []struct {
			By, Text string
			Tags     []string
			Chat     bool
		}
	}
}

// Made counts what a run made. All counts are zero if the demo was complete already.
type Made struct{ Sessions, Turns, Windows, Memories, Entries, Versions int }

// filler is one run. It leaves everything that exists unchanged, so an interrupted run can be repeated.
type filler struct {
	api  client
	now  time.Time
	made Made
}

// Fill fills the project of a running server. The key's role must be tenant_admin. A second run changes nothing.
func Fill(ctx context.Context, url, key string, now time.Time) (Made, error) {
	f := &filler{api: client{url, key}, now: now.UTC().Truncate(time.Second)}
	done, err := f.begin(ctx)
	if err != nil || done {
		return f.made, err
	}
	var all things
	if err := read("things.yaml", &all); err != nil {
		return f.made, err
	}
	steps := []func() error{
		func() error { return f.policy(ctx) },
		func() error { return f.settings(ctx) },
		func() error { return f.memories(ctx, all) },
		func() error { return f.sessions(ctx) },
		func() error { return f.board(ctx, all) },
		func() error { return f.api.put(ctx, "/projects/"+Project, map[string]any{"name": filled}) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return f.made, err
		}
	}
	return f.made, nil
}

func read(name string, into any) error {
	raw, err := files.ReadFile(name)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

// begin makes the project, unless an earlier run has filled it.
func (f *filler) begin(ctx context.Context) (done bool, err error) {
	var project struct{ Name string }
	there, err := f.api.get(ctx, "/projects/"+Project, &project)
	switch {
	case err != nil:
		return false, err
	case there && project.Name == filled:
		return true, nil
	case there && project.Name != filling:
		return false, fmt.Errorf("there is a project %s already, named %q, which is not the demo's", Project, project.Name)
	}
	return false, f.api.put(ctx, "/projects/"+Project, map[string]any{"name": filling})
}

// policy uploads the versions of the policy that are not there. The first upload is live at once.
func (f *filler) policy(ctx context.Context) error {
	var there struct {
		Versions []struct{ Version int }
	}
	if _, err := f.api.get(ctx, "/policies/"+policyName, &there); err != nil {
		return err
	}
	for _, name := range modules[min(len(there.Versions), len(modules)):] {
		module, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		if err := f.api.send(ctx, http.MethodPost, "/policies?name="+policyName, "application/wasm", module, nil); err != nil {
			return err
		}
		f.made.Versions++
	}
	return nil
}

// settings puts the policy in front of the pipeline that the project has by default.
func (f *filler) settings(ctx context.Context) error {
	var settings struct{ Pipeline []map[string]any }
	if _, err := f.api.get(ctx, "/projects/"+Project+"/settings", &settings); err != nil {
		return err
	}
	pipeline := settings.Pipeline
	for _, step := range pipeline {
		if step["policy"] == "tool-result-clear" {
			step["config"] = map[string]any{"max_result_tokens": 3000}
		}
	}
	if len(pipeline) == 0 || pipeline[0]["policy"] != policyName {
		pipeline = append([]map[string]any{{"policy": policyName}}, pipeline...)
	}
	return f.api.send(ctx, http.MethodPatch, "/projects/"+Project+"/settings", "application/json", encoded(map[string]any{
		"pipeline": pipeline, "session_history_depth": 10, "summary_enabled": true}), nil)
}

func (f *filler) memories(ctx context.Context, all things) error {
	for _, m := range all.Memories {
		var there struct{ Version int }
		if _, err := f.api.get(ctx, "/projects/"+Project+"/memories/"+m.Key, &there); err != nil {
			return err
		}
		for _, content := range m.Said[min(there.Version, len(m.Said)):] {
			memory := map[string]any{"key": m.Key, "content": content, "category": m.Category, "tags": m.Tags,
				"source": "demo", "session_id": m.Session, "importance": m.Importance}
			if m.Lasts > 0 {
				memory["expires_at"] = f.now.Add(m.Lasts)
			}
			if err := f.api.post(ctx, "/projects/"+Project+"/memories", memory, nil); err != nil {
				return err
			}
			f.made.Memories++
		}
	}
	return nil
}

// sessions plays the scripts, each from where it stopped.
func (f *filler) sessions(ctx context.Context) error {
	names, err := fs.Glob(files, "sessions/*.yaml")
	if err != nil {
		return err
	}
	for _, name := range names {
		var s script
		if err := read(name, &s); err != nil {
			return err
		}
		if err := f.session(ctx, &s); err != nil {
			return err
		}
	}
	return nil
}

func (f *filler) session(ctx context.Context, s *script) error {
	const sessions = "/projects/" + Project + "/sessions"
	var there struct{ Turns int }
	found, err := f.api.get(ctx, sessions+"/"+s.ID, &there)
	if err != nil {
		return err
	}
	began := f.now.Add(-s.Ago)
	if !found {
		if s.File != nil {
			err = f.api.post(ctx, sessions+"/import", s.file(began), nil)
			there.Turns = s.File.Turns
			f.made.Turns += s.File.Turns
		} else {
			err = f.api.post(ctx, sessions, s.spec(), nil)
		}
		if err != nil {
			return err
		}
		f.made.Sessions++
	}
	runs := s.runs(began)
	for _, r := range runs[min(there.Turns, len(runs)):] {
		for _, w := range r.windows {
			var answer struct {
				DecisionID string `json:"decision_id"`
			}
			if err := f.api.post(ctx, "/projects/"+Project+"/context", w, &answer); err != nil {
				return err
			}
			if r.turn["decision_id"] == nil {
				r.turn["decision_id"] = answer.DecisionID
			}
			f.made.Windows++
		}
		if err := f.api.post(ctx, "/projects/"+Project+"/turns", r.turn, nil); err != nil {
			return err
		}
		f.made.Turns++
	}
	return nil
}

func (f *filler) board(ctx context.Context, all things) error {
	b := all.Board
	board := "/boards/" + b.ID
	if err := f.api.put(ctx, board, map[string]any{"name": b.Name}); err != nil {
		return err
	}
	for _, a := range b.Agents {
		spec := map[string]any{"display_name": a.Name, "lead": a.Lead}
		if err := f.api.put(ctx, board+"/agents/"+a.ID, spec); err != nil {
			return err
		}
	}
	for _, v := range b.Values {
		if err := f.api.put(ctx, board+"/values/"+v.Key, map[string]any{"value": v.Value}); err != nil {
			return err
		}
	}
	var page struct{ Total int }
	if _, err := f.api.get(ctx, board+"/memory?limit=1", &page); err != nil {
		return err
	}
	for _, e := range b.Entries[min(page.Total, len(b.Entries)):] {
		entry := map[string]any{"content": e.Text, "source": e.By, "tags": e.Tags, "is_chat": e.Chat}
		if err := f.api.post(ctx, board+"/memory", entry, nil); err != nil {
			return err
		}
		f.made.Entries++
	}
	return nil
}
