package hostapi

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/testdata/hostile"
)

// docs/SANDBOX.md lists every limit with the number in the code, and no others.
func TestSandboxDocHasTheLimits(t *testing.T) {
	doc := sandboxDoc(t)
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^ |]+)").FindAllStringSubmatch(doc, -1) {
		documented[row[1]] = strings.ReplaceAll(row[2], ",", "")
	}
	_, slice := wasm.Fill(1 << 40)
	want := map[string]string{
		"Calls": "processors", "Compiles": "processors", // as many as the machine has, or half of them
		"fuelPerCall": fmt.Sprint(fuelPerCall), "bytesPerFuel": fmt.Sprint(bytesPerFuel),
		"fuelPerTokenised": fmt.Sprint(fuelPerTokenised), "fuelPerVector": fmt.Sprint(fuelPerVector),
		"fuelPerAnalysed": fmt.Sprint(fuelPerAnalysed),
		"logLineBytes":    fmt.Sprint(logLineBytes), "slice": fmt.Sprint(slice),
	}
	limits := reflect.ValueOf(DefaultLimits())
	for i := range limits.NumField() {
		if name := limits.Type().Field(i).Name; want[name] == "" {
			want[name] = fmt.Sprint(limits.Field(i).Interface())
		}
	}
	// Limits that are checked before compiling are listed with what was found in a module that passed.
	prepared, err := newHost(t, Options{Interpreter: true}).prepare(guest{}.build())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range prepared.Checks {
		if _, limit, counted := strings.Cut(c.Detail, " of "); counted {
			want[c.Name] = limit
		}
	}
	for name, limit := range want {
		if documented[name] != limit {
			t.Errorf("%s is %q in docs/SANDBOX.md, %q in the code", name, documented[name], limit)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/SANDBOX.md has a limit %s that the code has not", name)
	}
}

// The tests make every attack that the document names.
func TestSandboxDocNamesRealAttacks(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| ([a-z0-9_-]+) \| [0-9]`).FindAllStringSubmatch(sandboxDoc(t), -1)
	if len(rows) == 0 {
		t.Error("no measured attack")
	}
	for _, row := range rows {
		if _, ok := hostile.Named(row[1]); !ok && row[1] != "compiling" {
			t.Errorf("%s is no attack", row[1])
		}
	}
}

func sandboxDoc(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../docs/SANDBOX.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}
