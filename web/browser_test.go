package web_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// browsers are where Debian and others install Chromium; MNEME_CHROMIUM names another place.
var browsers = []string{os.Getenv("MNEME_CHROMIUM"), "/usr/bin/chromium"}

// missing says what is not installed that the console's own tests need, in a browser or without one.
func missing(browser bool) string {
	if _, err := exec.LookPath("node"); err != nil {
		return "node"
	}
	if _, err := os.Stat("node_modules/.package-lock.json"); err != nil {
		return "what web/package-lock.json names: cd web && npm ci"
	}
	for _, path := range browsers {
		if _, err := os.Stat(path); !browser || path != "" && err == nil {
			return ""
		}
	}
	return "a Chromium: apt-get install chromium, or MNEME_CHROMIUM names one"
}

// vitest runs tests of the console.
func vitest(t *testing.T, browser bool, environment []string, args ...string) {
	t.Helper()
	if what := missing(browser); what != "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("not installed: " + what)
		}
		t.Skip("not installed: " + what)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join("node_modules", ".bin", "vitest"), append([]string{"run"}, args...)...)
	cmd.Env = append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// The parts of the console that need no browser, and what browsers load: how much it is, and that it loads nothing else.
func TestConsoleParts(t *testing.T) {
	vitest(t, false, nil)
}

// The console in a real browser against the real program. It takes minutes, so it runs where it is asked for by name:
// MNEME_BROWSER=1, which CI sets.
func TestConsoleInBrowser(t *testing.T) {
	if os.Getenv("MNEME_BROWSER") == "" {
		t.Skip("MNEME_BROWSER is not set")
	}
	program := filepath.Join(t.TempDir(), "mneme")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	vitest(t, true, []string{"MNEME_BINARY=" + program}, "--config", "e2e/vitest.config.ts")
}
