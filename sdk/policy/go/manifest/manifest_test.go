package manifest_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/seed-0906e6bc/mneme/sdk/policy/go/manifest"
)

const (
	empty = "\x00asm\x01\x00\x00\x00"
	table = "\x01\x04\x01\x60\x00\x00" // a type section
	name  = "\x00\x05\x04name"
	json1 = `{"abi":"1.0","hooks":["assemble"]}`
)

func TestSetAddsAndReplaces(t *testing.T) {
	for label, module := range map[string]string{"empty": empty, "sections": empty + table + name} {
		t.Run(label, func(t *testing.T) {
			once, err := manifest.Set([]byte(module), []byte(" { \"abi\" : \"1.0\",\n\"hooks\":[\"assemble\"]}\n"))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := manifest.Get(once); err != nil || string(got) != json1 {
				t.Fatalf("Get = %q, %v", got, err)
			}
			if !bytes.HasPrefix(once, []byte(module)) {
				t.Errorf("the other sections changed: %q", once)
			}
			other, err := manifest.Set(once, []byte(`{"abi":"1.0","hooks":["assemble"],"name":"x"}`))
			if err != nil {
				t.Fatal(err)
			}
			again, err := manifest.Set(other, []byte(json1))
			if err != nil || !bytes.Equal(again, once) {
				t.Errorf("replacing gives %q, %v, want %q", again, err, once)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for label, c := range map[string]struct {
		module, manifest string
		want             error
	}{
		"no module":       {"\x7fELF", json1, manifest.ErrNotModule},
		"component":       {"\x00asm\x0d\x00\x01\x00", json1, manifest.ErrNotModule},
		"cut in a length": {empty + "\x01\x80", json1, manifest.ErrNotModule},
		"cut in a body":   {empty + "\x01\x05\x01", json1, manifest.ErrNotModule},
		"nameless":        {empty + "\x00\x02\x05a", json1, manifest.ErrNotModule},
		"no JSON":         {empty, `{"abi"`, manifest.ErrManifest},
		"no abi":          {empty, `{"hooks":["assemble"]}`, manifest.ErrManifest},
		"no hooks":        {empty, `{"abi":"1.0"}`, manifest.ErrManifest},
	} {
		t.Run(label, func(t *testing.T) {
			if _, err := manifest.Set([]byte(c.module), []byte(c.manifest)); !errors.Is(err, c.want) {
				t.Errorf("Set: %v, want %v", err, c.want)
			}
		})
	}
	if _, err := manifest.Get([]byte(empty)); !errors.Is(err, manifest.ErrNone) {
		t.Errorf("Get: %v, want ErrNone", err)
	}
}

func FuzzSet(f *testing.F) {
	f.Add([]byte(empty + table + name))
	f.Add([]byte(empty + "\x00\x0e\x0cmneme.policy{"))
	f.Add([]byte(empty + "\x01\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, module []byte) {
		once, err := manifest.Set(module, []byte(json1))
		if err != nil {
			return
		}
		if got, err := manifest.Get(once); err != nil || string(got) != json1 {
			t.Fatalf("Get = %q, %v", got, err)
		}
		if twice, err := manifest.Set(once, []byte(json1)); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("Set is not idempotent: %v", err)
		}
	})
}
