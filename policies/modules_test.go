package policies_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/policies"
	delegationfilter "github.com/seed-0906e6bc/mneme/policies/delegation-filter"
	depthcompress "github.com/seed-0906e6bc/mneme/policies/depth-compress"
	redactsecrets "github.com/seed-0906e6bc/mneme/policies/redact-secrets"
	"github.com/seed-0906e6bc/mneme/policies/summarise"
	toolpairtrim "github.com/seed-0906e6bc/mneme/policies/tool-pair-trim"
	toolresultclear "github.com/seed-0906e6bc/mneme/policies/tool-result-clear"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/manifest"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

var native = map[string]mneme.Policy{
	"delegation-filter": delegationfilter.Assemble,
	"summarise":         summarise.Assemble,
	"depth-compress":    depthcompress.Assemble,
	"tool-pair-trim":    toolpairtrim.Assemble,
	"tool-result-clear": toolresultclear.Assemble,
	"redact-secrets":    redactsecrets.Assemble,
}

// versions are the ABI versions of manifests that are not 1.1, and hooks the hooks of those that have others than
// assemble.
var (
	versions = map[string]string{"tool-pair-trim": "1.2", "redact-secrets": "1.3", "guard-trust": "1.3",
		"refuse-noise": "1.3", "dedupe": "1.3"}
	hooks = map[string][]string{"redact-secrets": {"admit", "assemble"}, "guard-trust": {"admit"},
		"refuse-noise": {"admit"}, "dedupe": {"admit"}}
)

// hooksOf returns the hooks that a policy's manifest must have.
func hooksOf(name string) []string {
	if of, ok := hooks[name]; ok {
		return of
	}
	return []string{"assemble"}
}

// declared is the content of a manifest.
type declared struct {
	ABI, Name, Version, Description string
	Hooks                           []string
	Config                          map[string]struct {
		Type    string
		Default any
	}
}

// Every folder's module is embedded, has the recorded SHA-256, and contains the manifest beside it.
func TestModules(t *testing.T) {
	folders, err := filepath.Glob("*/manifest.json")
	if err != nil || len(folders) != len(policies.BuiltIn()) {
		t.Fatalf("%d folders with a manifest, %d modules: %v", len(folders), len(policies.BuiltIn()), err)
	}
	for _, m := range policies.BuiltIn() {
		t.Run(m.Name, func(t *testing.T) {
			noted, err := os.ReadFile(filepath.Join(m.Name, m.Name+".wasm.sha256"))
			if err != nil {
				t.Fatal(err)
			}
			if sum := fmt.Sprintf("%x  %s.wasm\n", sha256.Sum256(m.Wasm), m.Name); sum != string(noted) {
				t.Errorf("SHA-256 is %q, noted is %q", sum, noted)
			}
			source, err := os.ReadFile(filepath.Join(m.Name, "manifest.json"))
			if err != nil {
				t.Fatal(err)
			}
			if again, err := manifest.Set(m.Wasm, source); err != nil || !slices.Equal(again, m.Wasm) {
				t.Errorf("the module does not carry manifest.json: %v", err)
			}
			d := read(t, m)
			if d.Name != m.Name || d.ABI != cmp.Or(versions[m.Name], "1.1") ||
				!slices.Equal(d.Hooks, hooksOf(m.Name)) || d.Description == "" {
				t.Errorf("manifest says %+v", d)
			}
		})
	}
}

// The defaults in a manifest are what the policy does without config.
func TestDefaults(t *testing.T) {
	for _, m := range policies.BuiltIn() {
		if !slices.Contains(hooksOf(m.Name), "assemble") {
			continue // its rules have no config
		}
		config := map[string]any{}
		for key, c := range read(t, m).Config {
			if c.Default == nil {
				continue
			}
			if number, ok := c.Default.(float64); ok && c.Type == "integer" {
				config[key] = int(number)
			} else {
				config[key] = c.Default
			}
		}
		t.Run(m.Name, func(t *testing.T) {
			seeded(t, 100, 60, func(t *testing.T, table *mnemetest.Table, _ *rand.Rand) {
				table.Config = switchedOn(nil)
				without := run(t, native[m.Name], table)
				table.Config = switchedOn(config)
				if with := run(t, native[m.Name], table); !slices.Equal(with, without) {
					t.Errorf("without config %q, with the defaults %q", without, with)
				}
			})
		})
	}
}

// switchedOn returns a config with which a policy does its work even if it is off by default.
func switchedOn(config map[string]any) map[string]any {
	on := map[string]any{}
	maps.Copy(on, config)
	on["enabled"] = true
	return on
}

func read(t *testing.T, m policies.Module) (d declared) {
	t.Helper()
	text, err := manifest.Get(m.Wasm)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}
