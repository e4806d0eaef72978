package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const rootKey = "the-operators-key"

// program is mneme, started in this process as main starts it.
type program struct {
	t      testing.TB
	url    string
	data   string
	key    string // the admin key of tenant default
	stdout string // until it listened
	before string // its log until then
	stop   func() error
}

// launch runs `mneme serve` on a free port, waits until it accepts requests, and stops it at the end of the test.
func launch(t testing.TB, data string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stderr, w := io.Pipe()
	var stdout bytes.Buffer
	ended := make(chan error, 1)
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--data", data, "--root-key", rootKey}, args...)
	go func() {
		err := run(ctx, args, noEnvironment, &stdout, w)
		_ = w.CloseWithError(fmt.Errorf("mneme ended: %w", err))
		ended <- err
	}()
	stop := sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	lines := bufio.NewReader(stderr)
	var before strings.Builder
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if _, url, ok := strings.Cut(line, "listening on "); ok {
			url, _, _ = strings.Cut(strings.TrimSpace(url), `"`) // the log may be JSON
			p := &program{t: t, url: url, data: data, stdout: stdout.String(), before: before.String(), stop: stop}
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			key, err := os.ReadFile(filepath.Join(data, "admin.key"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // of several servers on one database, only one has the file
				t.Fatal(err)
			}
			p.key = strings.TrimSpace(string(key))
			return p
		}
		before.WriteString(line)
	}
}

func noEnvironment(string) (string, bool) { return "", false }

// answer is a response, read completely.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// json decodes the response body.
func (a answer) json(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("status %d: %v in %q", a.status, err, a.body)
	}
	return v
}

// text returns a text field of the response body.
func (a answer) text(t testing.TB, field string) string {
	t.Helper()
	s, ok := a.json(t)[field].(string)
	if !ok {
		t.Fatalf("status %d: no text %q in %s", a.status, field, a.body)
	}
	return s
}

// do sends a request with a key; headers come as name, value pairs.
func (p *program) do(key, method, path, body string, headers ...string) answer {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, got}
}
