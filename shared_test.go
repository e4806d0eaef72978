package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store/pgstore/pgtest"
)

// TestServersStartTogether starts three servers on one empty database at once: one creates tenant default and saves
// its key, all serve the same sessions, and together they number the turns of a session.
func TestServersStartTogether(t *testing.T) {
	var postgres pgtest.Shared
	url := postgres.Database(t)
	t.Cleanup(func() { _ = postgres.Close() })
	programs := make([]*program, 3)
	var starting sync.WaitGroup
	for i := range programs {
		starting.Go(func() { programs[i] = launch(t, filepath.Join(t.TempDir(), "data"), "--store", url) })
	}
	starting.Wait()
	var key string
	for _, p := range programs {
		if p == nil {
			t.FailNow()
		}
		if p.key != "" && key != "" {
			t.Error("two servers made tenant default")
		}
		key += p.key
		if (p.key != "") != strings.Contains(p.stdout, "The key of tenant default") {
			t.Errorf("key %t, printed %q", p.key != "", p.stdout)
		}
	}
	const turns = 12
	var posting sync.WaitGroup
	for i, p := range programs {
		posting.Go(func() {
			for n := range turns {
				body := fmt.Sprintf(`{"session_id":"s","messages":[{"role":"user","content":"%d of %d"}]}`, n, i)
				if a := p.do(key, "POST", "/api/v1/projects/default/turns", body); a.status != 201 {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
	posting.Wait()
	var first []any
	for _, p := range programs {
		body := `{"session_id":"s","budget":{"max_messages":0,"max_tokens":0}}`
		messages, _ := p.do(key, "POST", "/api/v1/projects/default/context", body).json(t)["messages"].([]any)
		if len(messages) != turns*len(programs) {
			t.Errorf("a window of %d messages", len(messages))
		}
		if first == nil {
			first = messages
		}
		if !reflect.DeepEqual(first, messages) {
			t.Errorf("windows differ:\n%v\n%v", first, messages)
		}
	}
}

// A start fails at once, and without showing the password, if the store refuses it.
func TestStartWithoutTheDatabase(t *testing.T) {
	var postgres pgtest.Shared
	url := postgres.Cluster(t).URL("none") + "&password=hunter2"
	t.Cleanup(func() { _ = postgres.Close() })
	var stdout, stderr bytes.Buffer
	args := []string{"serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--store", url}
	err := run(t.Context(), args, noEnvironment, &stdout, &stderr)
	if err == nil || !strings.Contains(err.Error(), `"none" does not exist`) ||
		strings.Contains(err.Error()+stderr.String(), "hunter2") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v\n%s", err, stderr.String())
	}
}
