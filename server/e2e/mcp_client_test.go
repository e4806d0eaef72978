package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMCPWithAnotherClient runs a session over each transport with the protocol's TypeScript client, which shares no
// code with the SDK that Mneme uses. It needs Node and npm's registry or npm's cache; CI has them.
func TestMCPWithAnotherClient(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "session.mjs"} {
		content, err := os.ReadFile(filepath.Join("testdata", "mcp", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	run := func(env []string, name string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = folder, append(environment(), env...), time.Second
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund",
		"--prefer-offline"); err != nil {
		if os.Getenv("CI") != "true" {
			t.Skipf("the client cannot be installed: %v\n%s", err, out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	c := own(t)
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	key := "MNEME_KEY=" + c.newKey("agent")
	for name, args := range map[string][]string{
		"http":               {"http", c.url + "/mcp?project=" + c.project},
		"stdio":              {"stdio", binary, "mcp", "--data", filepath.Join(folder, "data")},
		"stdio for a server": {"stdio", binary, "mcp", "--server", c.url, "--project", c.project},
	} {
		out, err := run([]string{key}, "node", append([]string{"session.mjs"}, args...)...)
		if err != nil || !strings.Contains(out, "all as it should be") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
