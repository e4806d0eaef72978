package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFirstPolicy follows the instructions of docs/FIRST_POLICY.md. The SDK comes from a module proxy that has
// nothing else.
func TestFirstPolicy(t *testing.T) {
	follow(t, "docs/FIRST_POLICY.md", proxy(t)...)
}

// The page's program is the example that is built and tested with the SDK.
func TestFirstPolicyIsTheExample(t *testing.T) {
	example, err := os.ReadFile("sdk/policy/go/examples/keep-by-tag/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range readBlocks(t, "docs/FIRST_POLICY.md") {
		if b.file == "main.go" && b.text == string(example) {
			return
		}
	}
	t.Error("docs/FIRST_POLICY.md does not show sdk/policy/go/examples/keep-by-tag/main.go")
}

// The policies that come with Mneme pass the tests in their manifests when a tenant uploads them.
func TestShippedPoliciesPassTheirSelfTests(t *testing.T) {
	p := launch(t, filepath.Join(t.TempDir(), "data"))
	var modules []string
	for _, pattern := range []string{"policies/*/*.wasm", "sdk/policy/go/examples/*/*.wasm", "demo/*/*.wasm"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no module in %s: %v", pattern, err)
		}
		modules = append(modules, found...)
	}
	for _, file := range modules {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		a := p.do(p.key, "POST", "/api/v1/policies?name=mine-"+strings.TrimSuffix(filepath.Base(file), ".wasm"),
			string(code),
			"Content-Type", "application/wasm")
		if a.status != 201 {
			t.Errorf("%s: %d %s", file, a.status, a.body)
			continue
		}
		passed := false
		for _, c := range a.json(t)["checks"].([]any) {
			check := c.(map[string]any)
			passed = passed || check["check"] == "self_tests" && check["ok"] == true && check["detail"] != "0 passed"
		}
		if !passed {
			t.Errorf("%s: no self-test passed: %s", file, a.body)
		}
	}
}
