package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// TestKeysAreNowhere makes successful and failing model calls with keys that projects left with the server and with
// keys that clients send. Then it searches for all keys byte by byte: in the files of the store after a crash, while
// everything is in its logs, and again after a stop; in the server's log; in exports; and in what the provider
// received.
func TestKeysAreNowhere(t *testing.T) {
	t.Parallel()
	const sealed, passed, seal = "sk-sealed-51b0c7e2f94d8a36", "sk-passed-0d9e4a7715c2b86f", "seal-key-of-the-operator-0123456789abcdef"
	const marker = "marker-7c1f5e0a93d2b468"
	provider := providers.Start(t)
	data := t.TempDir()
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	begin := func() *process {
		p, err := launchWith(binary, data, []string{"OPENAI_BASE_URL=" + provider.URL + "/v1", "ANTHROPIC_BASE_URL=" + provider.URL,
			"MNEME_PROXY_SEAL_KEY=" + seal, "MNEME_STORE=", "MNEME_LOG_SAMPLE=1"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return p
	}
	p := begin()
	c := p.client(t)
	var upstreams []object
	for _, protocol := range []string{"openai", "anthropic"} {
		upstreams = append(upstreams, object{"name": protocol, "protocol": protocol, "base_url": provider.URL + "/v1",
			"key": "sealed", "secret": sealed, "allow_private": true})
	}
	c.do("PUT", "/api/v1/projects/sealed", object{}).want(200, 201)
	c.do("PATCH", "/api/v1/projects/sealed/settings", object{"upstreams": upstreams}).want(200)
	var agent struct{ Key string }
	c.post("/api/v1/keys", object{"name": "agent", "role": "agent"}).want(201).into(&agent)

	const question = `"messages":[{"role":"user","content":"` + marker + `"}]`
	calls := map[string]string{
		"/chat/completions": `{"model":"gpt-4.1",` + question + `}`,
		"/responses":        `{"model":"gpt-5.6","input":[{"role":"user","content":"` + marker + `"}]}`,
		"/messages":         `{"model":"claude-sonnet-4-5","max_tokens":99,` + question + `}`,
	}
	var answers bytes.Buffer
	call := func(project, path, body string, status int, headers ...string) {
		t.Helper()
		r := c.as("").do("POST", "/p/"+project+"/v1"+path, []byte(body), append([]string{"Anthropic-Version", "2023-06-01"}, headers...)...)
		if r.status != status {
			t.Errorf("%s %s %v: %d %s, want %d", project, path, headers, r.status, r.body, status)
		}
		answers.Write(r.body)
		fmt.Fprint(&answers, r.header)
	}
	n := 0
	for path, whole := range calls {
		for _, body := range []string{whole, `{"stream":true,` + whole[1:]} {
			for _, mode := range []string{"observe", "assemble"} {
				n++
				session := []string{"X-Mneme-Session", fmt.Sprint("s", n), "X-Mneme-Mode", mode}
				call("sealed", path, body, 200, append(session, "Authorization", "Bearer "+agent.Key)...)
				call("default", path, body, 200, append(session, "X-Mneme-Key", agent.Key, "Authorization", "Bearer "+passed)...)
			}
		}
		// Servers tend to log failed calls.
		both := []string{"X-Mneme-Key", agent.Key, "Authorization", "Bearer " + passed}
		call("default", path, whole, 422, append(both, "X-Mneme-Mode", passed)...)
		call("default", path+"?key="+agent.Key, whole, 400, both...)
		provider.Script(providers.Reply{Fail: providers.ServerError(providers.Chat)})
		call("sealed", path, whole, 500, "X-Mneme-Key", agent.Key, "X-Mneme-Session", "failed")
	}
	for _, path := range []string{"/api/v1/projects/sealed/settings", "/api/v1/export", "/api/v1/audit"} {
		answers.Write(c.get(path).want(200).body)
	}
	secrets := map[string]string{"the sealed key": sealed, "the passed key": passed, "the operator's key": seal,
		"the agent's key": agent.Key, "the root key": rootKey}
	search := func(where string, text []byte, but ...string) {
		for name, secret := range secrets {
			for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret))} {
				if name != strings.Join(but, "") && bytes.Contains(text, []byte(form)) {
					t.Errorf("%s holds %s", where, name)
				}
			}
		}
	}
	files := func(when string) {
		found := false
		err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			search(when+": "+filepath.Base(path), text)
			found = found || bytes.Contains(text, []byte(marker))
			return err
		})
		if err != nil || !found {
			t.Errorf("%s: the files were not looked at: %v", when, err)
		}
	}
	p.kill()
	files("behind a crash")
	logs := p.log.String()
	p = begin()
	p.stop(t)
	files("behind a stop")
	search("the log", []byte(logs+p.log.String()))
	search("an answer", answers.Bytes())
	for _, r := range provider.Requests() {
		own := "the passed key"
		if strings.Contains(fmt.Sprint(r.Header), sealed) {
			own = "the sealed key"
		}
		search("the provider's traffic", fmt.Appendf(nil, "%s %v %s", r.Path, r.Header, r.Body), own)
	}
	if len(provider.Requests()) < 2*n {
		t.Error("the provider got too few calls")
	}
}
