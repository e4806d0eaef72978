package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// Tagged is the SDK's example: it keeps tagged records and mandatory ones.
func Tagged(t testing.TB) []byte {
	t.Helper()
	return Example(t, "keep-by-tag")
}

// Example is one of the SDK's example policies.
func Example(t testing.TB, name string) []byte {
	t.Helper()
	root, err := os.Getwd()
	for err == nil && !isFile(filepath.Join(root, "go.mod")) {
		root = filepath.Dir(root)
	}
	code, err := os.ReadFile(filepath.Join(root, "sdk/policy/go/examples", name, name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (k *Kit) Upload(name string, code []byte) policy.Version {
	k.Helper()
	v, _, err := k.Policies.Upload(k.Context(), k.Admin, ident.Once{}, name, code)
	if err != nil {
		k.Fatalf("uploading %s: %v", name, err)
	}
	return v
}

func (k *Kit) SetPipeline(pipeline string) {
	k.Helper()
	patch := json.RawMessage(`{"pipeline":` + pipeline + `}`)
	if _, err := k.Projects.PatchSettings(k.Context(), k.Admin, ident.DefaultProject, patch); err != nil {
		k.Fatal(err)
	}
}

func (k *Kit) Live(name string) int {
	k.Helper()
	p, err := k.Policies.Get(k.Context(), k.Admin, name)
	if err != nil {
		k.Fatal(err)
	}
	return p.Live
}

func (k *Kit) SetLive(name string, version int) {
	k.Helper()
	if _, err := k.Policies.SetLive(k.Context(), k.Admin, name, policy.LiveSpec{Version: version}); err != nil {
		k.Fatal(err)
	}
}

// RefusedWith fails unless err is an *engine.Error of that kind and code.
func RefusedWith(t testing.TB, err error, kind fault.Kind, code string) *fault.Error {
	t.Helper()
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Kind != kind || e.Code != code {
		t.Fatalf("%v, want %s", err, code)
	}
	return e
}

func WithTag(text, tag string) string {
	return fmt.Sprintf(`{"role":"user","content":%q,"tags":[%q]}`, text, tag)
}

func Keeping(version string) []byte {
	return wasmtest.Policy(wasmtest.Manifest(version), wasmtest.Keep())
}
