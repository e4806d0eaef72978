package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// golden is one file of testdata/golden: a session and its windows, compared byte for byte without white space.
type golden struct {
	Turns   []json.RawMessage `json:"turns"`
	Windows []goldenWindow    `json:"windows"`
}

type goldenWindow struct {
	Ask      json.RawMessage `json:"ask"`
	Messages json.RawMessage `json:"messages,omitempty"`
	System   string          `json:"system,omitempty"`
	Text     string          `json:"text,omitempty"`
}

// TestGoldenWindows compares whole windows with the files in testdata/golden, which people have reviewed.
func TestGoldenWindows(t *testing.T) {
	files, err := filepath.Glob("../../testdata/golden/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var g golden
			if err := json.Unmarshal(data, &g); err != nil {
				t.Fatal(err)
			}
			c := own(t)
			for _, turn := range g.Turns {
				c.do("POST", c.path("/turns"), []byte(turn)).want(201)
			}
			for _, want := range g.Windows {
				var got goldenWindow
				c.do("POST", c.path("/context"), []byte(want.Ask)).want(200).into(&got)
				same := bytes.Equal(compact(t, got.Messages), compact(t, want.Messages))
				if !same || got.System != want.System || got.Text != want.Text {
					t.Errorf("%s\ngot  %s\n     %q %q\nwant %s\n     %q %q", want.Ask, got.Messages, got.System,
						got.Text,
						compact(t, want.Messages), want.System, want.Text)
				}
			}
		})
	}
}

func compact(t *testing.T, raw json.RawMessage) []byte {
	t.Helper()
	if len(raw) == 0 || string(raw) == "null" || string(raw) == "[]" {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
