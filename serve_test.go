package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestFirstStartTellsHowToGoOn(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := launch(t, data)
	for _, want := range []string{p.url, p.key, filepath.Join(data, "admin.key")} {
		if !strings.Contains(p.stdout, want) {
			t.Errorf("%q is not in:\n%s", want, p.stdout)
		}
	}
	info, err := os.Stat(filepath.Join(data, "admin.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("admin.key: %v, %v", info, err)
	}
	// The printed curl commands must work as they are.
	curl := regexp.MustCompile(
		`curl -s (\S+) -H 'Authorization: Bearer (\S+)' -H 'Content-Type: application/json' [\\\s]*-d '(.*)'`)
	curls := curl.FindAllStringSubmatch(p.stdout, -1)
	if len(curls) != 2 {
		t.Fatalf("%d curls in:\n%s", len(curls), p.stdout)
	}
	for i, status := range []int{201, 200} {
		path, ok := strings.CutPrefix(curls[i][1], p.url)
		if a := p.do(curls[i][2], "POST", path, curls[i][3]); !ok || a.status != status {
			t.Errorf("%s: %d %s", curls[i][0], a.status, a.body)
		}
	}
}

func TestLaterStartsKeepWhatIsThere(t *testing.T) {
	data := t.TempDir()
	first := launch(t, data)
	const turn = `{"messages":[{"role":"user","content":"kept"}]}`
	if a := first.do(first.key, "POST", "/api/v1/projects/default/turns", turn); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	second := launch(t, data)
	if second.key != first.key || second.stdout != "" {
		t.Errorf("key kept: %v; printed %q", second.key == first.key, second.stdout)
	}
	if a := second.do(second.key, "POST", "/api/v1/projects/default/context", ``); !strings.Contains(string(a.body),
		"kept") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// If a first start is interrupted between creating the tenant and saving its key, admin.key is empty, and the next
// start makes a key. If the operator removes the file, it is not created again.
func TestAdminKeyIsNeverLostNorForced(t *testing.T) {
	data := t.TempDir()
	name := filepath.Join(data, "admin.key")
	first := launch(t, data)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second := launch(t, data)
	if second.key == first.key || !strings.Contains(second.stdout, second.key) {
		t.Errorf("printed %q", second.stdout)
	}
	for _, key := range []string{first.key, second.key} {
		if a := second.do(key, "GET", "/api/v1/keys", ""); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	k, err := reserveKey(data)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := k.keep(t.Context(), nil, ""); key != "" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
	if left, _ := filepath.Glob(filepath.Join(data, "*admin.key*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStartsThatCannotBe(t *testing.T) {
	data := t.TempDir()
	launch(t, data)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("not a folder"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"in use by another process":         {"--data", data, "--listen", "127.0.0.1:0"},
		"address already in use":            {"--data", t.TempDir(), "--listen", taken.Addr().String()},
		"missing port in address":           {"--data", t.TempDir(), "--listen", "nonsense"},
		"file":                              {"--data", file, "--listen", "127.0.0.1:0"},
		"tokenizer.json: no such file":      {"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--static-embeddings", t.TempDir()},
		"flag provided but not defined":     {"--dta", data},
		`serve takes flags only, not "now"`: {"now"},
	} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), append([]string{"serve"}, args...), noEnvironment, &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v", args, err)
		}
		if strings.Contains(stderr.String(), "listening") {
			t.Errorf("%v: it listened", args)
		}
	}
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		args           []string
		stdout, stderr string
		err            string
	}{
		{[]string{"version"}, "mneme ", "", ""},
		{[]string{"help"}, "mneme serve", "", ""},
		{[]string{"help", "serve"}, "-root-key", "", ""},
		{[]string{"--help"}, "mneme serve", "", ""},
		{[]string{"serve", "-h"}, "", "MNEME_LISTEN", ""},
		{nil, "", "mneme serve", "name a command"},
		{[]string{"sevre"}, "", "", `unknown command "sevre"`},
	} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), c.args, noEnvironment, &stdout, &stderr)
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: error %v", c.args, err)
		}
		if !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%v: stdout %q, stderr %q", c.args, stdout.String(), stderr.String())
		}
	}
}

// The log follows the operator's options, and profiles are served on a separate address.
func TestLogAndProfiles(t *testing.T) {
	p := launch(t, t.TempDir(), "--log-format", "json", "--log-level", "info", "--debug-listen", "0")
	var debug string
	for line := range strings.Lines(p.before) {
		var said struct{ Level, Msg, URL string }
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if said.Msg == "profiles are served" && said.Level == "INFO" {
			debug = said.URL
		}
	}
	if !strings.HasPrefix(debug, "http://127.0.0.1:") {
		t.Fatalf("no address of the profiles in:\n%s", p.before)
	}
	for path, status := range map[string]int{"goroutine?debug=1": 200, "heap": 200, "": 200, "symbol": 200,
		"cmdline": 404} {
		res, err := http.Get(debug + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if res.StatusCode != status || err != nil || bytes.Contains(body, []byte(rootKey)) {
			t.Errorf("%s: %d, %v, %q", path, res.StatusCode, err, body)
		}
		_ = res.Body.Close()
	}
	if a := p.do(p.key, "GET", "/debug/pprof/", ""); a.status != 404 {
		t.Errorf("the server's own address answers %d", a.status)
	}
}
