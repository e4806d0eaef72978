package e2e

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/seed-0906e6bc/mneme/foreign"
)

const foreignSamples = "../../foreign/testdata"

// packed returns the files of a folder as a tar archive, as `mneme import` sends them. change, which may be nil, may
// change what a file holds.
func packed(t *testing.T, dir string, change func(name string, raw []byte) []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "expected.json" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if change != nil {
			raw = change(name, raw)
		}
		f := foreign.File{Name: filepath.ToSlash(name), Size: int64(len(raw)), ModTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		if err := w.WriteHeader(foreign.TarHeader(&f)); err != nil {
			return err
		}
		_, err = w.Write(raw)
		return err
	})
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (c *conversation) importForeign(query string, body []byte) (r foreign.Report) {
	c.t.Helper()
	c.do("POST", c.path("/import/foreign"+query), body, "Content-Type", "application/octet-stream").want(200).into(&r)
	return r
}

// wanted is the part of a sample's expected.json that is about what is stored.
type wanted struct {
	Report   struct{ Conversations, Turns, Messages, Memories int }
	Sessions []struct {
		ID, Agent, Title string
		Metadata         map[string]string
		Fork             string `json:"fork_of"`
		Turns            [][]struct {
			Text    string
			At      *time.Time
			Sources []string `json:"source_ids"`
		}
	}
	Memories []struct {
		Namespace []string
		Key       string
	}
}

// TestForeignSamples imports files of each format: first not at all, then once, then again. Every session then gives
// windows in all formats of providers, and recall finds a word of it.
func TestForeignSamples(t *testing.T) {
	paths, err := filepath.Glob(foreignSamples + "/*/expected.json")
	if err != nil || len(paths) < 9 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			c := own(t)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var want wanted
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			body := packed(t, filepath.Dir(path), nil)
			adds := func(what string, r foreign.Report, w struct{ Conversations, Turns, Messages, Memories int }) {
				t.Helper()
				g := r.Total
				if g.Conversations != w.Conversations || g.Turns != w.Turns || g.Messages != w.Messages || g.Memories != w.Memories ||
					g.LeftOut[foreign.Refused] != 0 {
					t.Errorf("%s: got %+v, want %+v: %+v", what, g, w, r.Files)
				}
			}
			adds("a dry run", c.importForeign("?dry_run=true", body), want.Report)
			if got := len(c.sessionIDs()); got != 0 {
				t.Errorf("a dry run stored %d sessions", got)
			}
			adds("the import", c.importForeign("", body), want.Report)
			adds("the import again", c.importForeign("", body), struct{ Conversations, Turns, Messages, Memories int }{})
			c.holdsForeign(&want)
		})
	}
}

func (c *conversation) sessionIDs() (ids []string) {
	c.t.Helper()
	var list struct{ Data []struct{ ID string } }
	c.get(c.path("/sessions")).want(200).into(&list)
	for _, s := range list.Data {
		ids = append(ids, s.ID)
	}
	return ids
}

// holdsForeign checks what is stored of a sample.
func (c *conversation) holdsForeign(want *wanted) {
	c.t.Helper()
	for _, w := range want.Sessions {
		var s struct {
			Agent, Title, Origin string
			Metadata             map[string]string
			Last                 time.Time `json:"last_activity_at"`
		}
		at := c.path("/sessions/" + url.PathEscape(w.ID))
		c.get(at).want(200).into(&s)
		if s.Agent != w.Agent || s.Title != w.Title || s.Origin != "import" || len(s.Metadata) != len(w.Metadata) {
			c.t.Errorf("%s is %+v, want %+v", w.ID, s, w)
		}
		var list struct {
			Data []struct {
				Content string
				Sources []string  `json:"source_ids"`
				At      time.Time `json:"created_at"`
			}
		}
		c.get(at + "/messages?limit=200").want(200).into(&list)
		n := 0
		for _, turn := range w.Turns {
			n += len(turn)
		}
		if got := len(list.Data); got < n || got == n && w.Fork != "" {
			c.t.Errorf("%s has %d messages, want %d", w.ID, got, n)
		}
		newest, word := time.Time{}, ""
		for _, m := range list.Data {
			if m.At.After(newest) {
				newest = m.At
			}
			if len(m.Sources) == 0 {
				c.t.Errorf("%s: a message has no source ids: %+v", w.ID, m)
			}
			for _, one := range strings.FieldsFunc(m.Content, func(r rune) bool { return !unicode.IsLetter(r) }) {
				if len(one) > len(word) {
					word = one
				}
			}
		}
		if !s.Last.Equal(newest) || newest.Year() < 2025 {
			c.t.Errorf("%s was active last at %v, and its newest message is of %v", w.ID, s.Last, newest)
		}
		for _, format := range []string{"openai.chat", "anthropic.messages", "openai.responses"} {
			var window struct{ Messages []json.RawMessage }
			c.post(c.path("/context"), object{"session_id": w.ID, "format": format}).want(200).into(&window)
			if len(window.Messages) == 0 {
				c.t.Errorf("the window of %s in %s is empty", w.ID, format)
			}
		}
		var found struct {
			Transcript []struct {
				SessionID string `json:"session_id"`
			}
		}
		r := c.post(c.path("/memories/recall"), object{"query": word, "scope": "transcript", "session_id": w.ID}).want(200)
		r.into(&found)
		if !strings.Contains(string(r.body), w.ID) {
			c.t.Errorf("recall of %q does not find %s: %s", word, w.ID, r.body)
		}
	}
	for _, m := range want.Memories {
		query := url.Values{"namespace": m.Namespace}
		c.get(c.path("/memories/" + url.PathEscape(m.Key) + "?" + query.Encode())).want(200)
	}
}

// TestForeignSubAgent checks that no word of a sub-agent is in the windows of its parent.
func TestForeignSubAgent(t *testing.T) {
	c := own(t)
	c.importForeign("", packed(t, foreignSamples+"/claude-code", nil))
	parent := ""
	for _, id := range c.sessionIDs() {
		if strings.HasSuffix(id, ".a77") {
			parent = strings.TrimSuffix(id, ".a77")
		}
	}
	for _, viewer := range []object{nil, {"agent": "main"}, {"agent": "general-purpose"}, {"agent": "other"}} {
		ask := object{"session_id": parent}
		if viewer != nil {
			ask["viewer"] = viewer
		}
		r := c.post(c.path("/context"), ask).want(200)
		for _, words := range []string{"Looking at the calendar", "November"} {
			if bytes.Contains(r.body, []byte(words)) {
				t.Errorf("the window for %v has %q", viewer, words)
			}
		}
	}
}

// TestForeignGrows imports a session that was cut short, then whole, and then with another answer.
func TestForeignGrows(t *testing.T) {
	c := own(t)
	cut := func(lines int) []byte {
		return packed(t, foreignSamples+"/codex", func(_ string, raw []byte) []byte {
			return bytes.Join(bytes.SplitAfter(raw, []byte("\n"))[:lines], nil)
		})
	}
	whole := packed(t, foreignSamples+"/codex", nil)
	first, rest := c.importForeign("", cut(12)).Total, c.importForeign("", whole).Total
	if first.Messages == 0 || rest.Messages == 0 || first.Messages+rest.Messages != 10 || rest.Conversations != 0 {
		t.Errorf("got %+v, then %+v", first, rest)
	}
	if again := c.importForeign("", cut(12)).Total; again.Messages != 0 {
		t.Errorf("the older file adds %+v", again)
	}
	edited := packed(t, foreignSamples+"/codex", func(_ string, raw []byte) []byte {
		return bytes.ReplaceAll(raw, []byte("msg_20"), []byte("msg_21"))
	})
	if fork := c.importForeign("", edited).Total; fork.Conversations != 1 || fork.Turns != 1 || fork.Messages != 2 {
		t.Errorf("the edited file adds %+v", fork)
	}
	if ids := c.sessionIDs(); len(ids) != 2 || ids[1] != ids[0]+"~2" {
		t.Errorf("the sessions are %q", ids)
	}
}
