package hostapi

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

const configManifest = `{"abi":"1.0","hooks":["assemble"],"config":{
	"depth":{"type":"integer","default":20,"minimum":1,"maximum":100},
	"ratio":{"type":"number","minimum":0,"maximum":1},
	"marker":{"type":"boolean","default":true},
	"mode":{"type":"string","default":"wait","enum":["wait","background"]},
	"level":{"type":"integer","enum":[1,2,4]},
	"note":{"type":"string"}}}`

func TestConfig(t *testing.T) {
	m, err := parseManifest([]byte(configManifest))
	if err != nil {
		t.Fatal(err)
	}
	defaults := []plan.ConfigEntry{
		{Key: "depth", Value: int64(20)}, {Key: "marker", Value: true}, {Key: "mode", Value: "wait"},
	}
	for _, c := range []struct {
		raw  string
		want []plan.ConfigEntry
	}{
		{``, defaults}, {` `, defaults}, {`{}`, defaults}, {`null`, defaults},
		{`{"mode":"background","depth": 100 ,"ratio":1,"note":"","level":4}`, []plan.ConfigEntry{
			{Key: "depth", Value: int64(100)}, {Key: "level", Value: int64(4)}, {Key: "marker", Value: true},
			{Key: "mode", Value: "background"}, {Key: "note", Value: ""}, {Key: "ratio", Value: 1.0},
		}},
	} {
		got, err := m.Config(json.RawMessage(c.raw))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v", c.raw, got, err)
		}
	}
	for raw, want := range map[string]string{
		`{"depth":0}`:                 `config "depth": is 0, less than 1`,
		`{"depth":101}`:               `config "depth": is 101, more than 100`,
		`{"depth":1.5}`:               `config "depth": is 1.5, not of type integer`,
		`{"depth":99999999999999999}`: `config "depth"`,
		`{"depth":1e400}`:             `config "depth"`,
		`{"depth":"20"}`:              `config "depth": is "20", not of type integer`,
		`{"depth":null}`:              `config "depth": is null, not of type integer`,
		`{"ratio":1e999}`:             `config "ratio": is 1e999, not of type number`,
		`{"ratio":-0.1}`:              `config "ratio": is -0.1, less than 0`,
		`{"marker":1}`:                `config "marker": is 1, not of type boolean`,
		`{"marker":null}`:             `config "marker": is null, not of type boolean`,
		`{"mode":"never"}`:            `config "mode": is "never", not one of "wait", "background"`,
		`{"level":3}`:                 `config "level": is 3, not one of 1, 2, 4`,
		`{"Depth":1}`:                 `config "Depth": is not a setting`,
		`[]`:                          `not a JSON object`,
		`{`:                           `not a JSON object`,
	} {
		if got, err := m.Config(json.RawMessage(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", raw, got, err, want)
		}
	}
	_, err = m.Config(json.RawMessage(`{"depth":0,"who":1}`))
	var first *plan.ConfigError
	if !errors.As(err, &first) || !strings.Contains(err.Error(), `"depth"`) || !strings.Contains(err.Error(), `"who"`) {
		t.Errorf("two wrong keys: %v", err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object"}`:                            "type",
		`{}`:                                           "type",
		`{"type":"string","minimum":1}`:                "takes no minimum",
		`{"type":"integer","minimum":1.5}`:             "1.5",
		`{"type":"integer","enum":[1,"2"]}`:            `enum value 1 is "2"`,
		`{"type":"integer","default":5,"maximum":4}`:   "default is 5, more than 4",
		`{"type":"string","default":"c","enum":["a"]}`: `default is "c", not one of "a"`,
		`{"type":"string","format":"uri"}`:             "format",
	} {
		raw := `{"abi":"1.0","hooks":["assemble"],"config":{"key":` + schema + `}}`
		if _, err := parseManifest([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

// Any input is refused or gives entries of the declared types, sorted, with every default filled in.
func FuzzConfig(f *testing.F) {
	f.Add(`{"depth":5,"note":"x"}`)
	f.Add(`{"ratio":1e-9,"level":1,"mode":"wait"}`)
	m, err := parseManifest([]byte(configManifest))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		entries, err := m.Config(json.RawMessage(raw))
		if err != nil {
			return
		}
		last, defaults := "", 0
		for _, e := range entries {
			if e.Key <= last {
				t.Fatalf("%q after %q", e.Key, last)
			}
			last = e.Key
			types := map[string]any{"integer": int64(0), "number": 0.0, "boolean": false, "string": ""}
			if reflect.TypeOf(e.Value) != reflect.TypeOf(types[m.Schema[e.Key].Type]) {
				t.Fatalf("%q is a %T", e.Key, e.Value)
			}
			if m.Schema[e.Key].Default != nil {
				defaults++
			}
		}
		if defaults != 3 {
			t.Fatalf("%d of 3 settings with defaults", defaults)
		}
	})
}
