package hostapi

import (
	"bytes"
	"os"
	"testing"
)

// The fields of each table must cover its structure: each begins where the previous one ends, aligned, up to the size.
func TestTablesTile(t *testing.T) {
	widths := map[string]int{"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i64": 8, "f32": 4, "8 bytes": 8}
	for name, c := range map[string]struct {
		fields []field
		size   int
	}{
		"preamble": {preambleFields, 128},
		"record":   {recordFields, 72},
		"extra":    {extraFields, 64},
		"config":   {configFields, 24},
		"string":   {stringFields, 8},
		"plan":     {planFields, 16},
		"op":       {opFields, 32},
	} {
		at := 0
		for _, f := range c.fields {
			if w := widths[f.typ]; w == 0 || f.at != at || at%w != 0 {
				t.Errorf("%s.%s is a %s at %d, want %d", name, f.name, f.typ, f.at, at)
			}
			at += widths[f.typ]
		}
		if at != c.size {
			t.Errorf("%s ends at %d, want %d", name, at, c.size)
		}
	}
	for i := 1; i < len(opSpecs); i++ {
		was, is := &opSpecs[i-1], &opSpecs[i]
		if is.code != was.code && is.code != was.code+1 || is.code == was.code && is.template <= was.template {
			t.Errorf("op %s stands at %d", is.name, i)
		}
	}
}

func TestABIDocumentIsUpToDate(t *testing.T) {
	var want bytes.Buffer
	if err := WriteABI(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../docs/ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/ABI.md is stale; run `go generate ./hostapi`")
	}
}
