package plan_test

import (
	"encoding/json"
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// A config is checked against the manifest's schema, gets its defaults, and is sorted by key.
func ExampleManifest_Config() {
	low := json.Number("1")
	m := plan.Manifest{Schema: map[string]plan.Setting{
		"keep": {Type: "string", Default: json.RawMessage(`"newest"`)},
		"days": {Type: "integer", Minimum: &low},
	}}
	entries, err := m.Config([]byte(`{"days":3}`))
	fmt.Println(entries, err)
	_, err = m.Config([]byte(`{"days":0,"hours":1}`))
	fmt.Println(err)
	// Output:
	// [{days 3} {keep newest}] <nil>
	// config "hours": is not a setting of this policy
	// config "days": is 0, less than 1
}
