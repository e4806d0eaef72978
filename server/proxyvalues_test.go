package server

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/gateway"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// TestProxyPageNamesEveryValue checks that docs/PROXY.md has a row for each value of each header that the proxy adds.
func TestProxyPageNamesEveryValue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/PROXY.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Join(regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(string(page), -1), "\n")
	values := []string{"append", "cut", "yes", "no", "pending", gateway.Observe, gateway.Recall, gateway.Assemble, gateway.Bypass, project.ModeOff}
	for _, c := range []align.Case{align.New, align.Extend, align.Rewind, align.Diverge, align.Edit, align.Gap, align.Front, align.Tail, align.Delta,
		align.None, align.SideCall} {
		values = append(values, string(c))
	}
	// The reasons why nothing is stored: those of this package, and those that a commit returns.
	for _, file := range []string{"proxyended.go", "proxyturn.go", "proxycall.go", "../engine/gateway/history/commit.go", "../engine/message/align/identify.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:return |Reason: |reason :?= |noSession = |failed\([^,]*, )"([a-z_]+)"`).FindAllStringSubmatch(string(source), -1) {
			values = append(values, m[1])
		}
	}
	if len(values) < 30 {
		t.Fatalf("found only %q", values)
	}
	for _, value := range values {
		if !strings.Contains(rows, "`"+value+"`") {
			t.Errorf("docs/PROXY.md does not say what %s means", value)
		}
	}
	for _, header := range regexp.MustCompile(`X-Mneme-[A-Z][A-Za-z-]+`).FindAllString(headersOf(t), -1) {
		if !strings.Contains(rows, "`"+header+"`") {
			t.Errorf("docs/PROXY.md does not say what %s is", header)
		}
	}
}

// headersOf returns the source of the proxy, which names its headers.
func headersOf(t *testing.T) string {
	var all strings.Builder
	for _, file := range []string{"proxyturn.go", "proxycall.go", "proxykeys.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(source)
	}
	return all.String()
}
