package hostapi

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// The guest SDK states the ABI again, as Go declarations. These tests compare its source, as used to build a module,
// with the tables here.

// source is a package's declarations, parsed but not built.
type source struct {
	files []*ast.File
	scope *types.Scope
}

func readSource(t *testing.T, dir string, target build.Context) source {
	t.Helper()
	pkg, err := target.ImportDir(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var s source
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(set, filepath.Join(dir, name), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s.files = append(s.files, file)
	}
	// What the module's own packages declare cannot be imported here. The declarations that the tests compare need none.
	unknown := func(err error) {
		if !strings.Contains(err.Error(), "mneme/engine/") {
			t.Fatal(err)
		}
	}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", exported), Sizes: types.SizesFor("gc", "wasm"), Error: unknown,
		IgnoreFuncBodies: true}
	checked, _ := config.Check(dir, set, s.files, nil)
	s.scope = checked.Scope()
	return s
}

// exported opens what the go command exports of a package of the standard library. importer.Default asks the GOROOT that
// is compiled in, and a test that is built with -trimpath has none.
func exported(path string) (io.ReadCloser, error) {
	name, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", path).Output()
	if err != nil {
		return nil, err
	}
	return os.Open(strings.TrimSpace(string(name)))
}

func readSDK(t *testing.T) source {
	target := build.Default
	target.GOOS, target.GOARCH = "wasip1", "wasm"
	return readSource(t, "../sdk/policy/go", target)
}

// number returns the value of a constant.
func (s source) number(t *testing.T, name string) uint64 {
	t.Helper()
	c, ok := s.scope.Lookup(name).(*types.Const)
	if !ok {
		t.Fatalf("there is no constant %s", name)
	}
	n, _ := constant.Uint64Val(constant.ToInt(c.Val()))
	return n
}

// ofType returns the constants of a named type, without a common prefix.
func (s source) ofType(name, prefix string) map[string]string {
	values := map[string]string{}
	for _, n := range s.scope.Names() {
		if c, ok := s.scope.Lookup(n).(*types.Const); ok {
			if named, ok := c.Type().(*types.Named); ok && named.Obj().Name() == name {
				values[strings.TrimPrefix(n, prefix)] = c.Val().String()
			}
		}
	}
	return values
}

// layout returns the fields of a struct by offset, as in fields.
func (s source) layout(t *testing.T, name string) map[string]string {
	t.Helper()
	shape, ok := s.scope.Lookup(name).Type().Underlying().(*types.Struct)
	if !ok {
		t.Fatalf("%s is no struct", name)
	}
	sizes := types.SizesFor("gc", "wasm")
	var all []*types.Var
	for i := range shape.NumFields() {
		all = append(all, shape.Field(i))
	}
	fields := map[string]string{}
	for i, at := range sizes.Offsetsof(all) {
		basic := all[i].Type().Underlying().(*types.Basic)
		kind := strings.NewReplacer("uint", "u", "int", "i", "float", "f").Replace(basic.Name())
		fields[fmt.Sprintf("%d %s", at, kind)] = all[i].Name()
	}
	return fields
}

// spelled are names that the SDK spells differently from the ABI. All others differ only in case and underscores, or
// have At and Len instead of offset and length.
var spelled = map[string]string{
	"size": "preamblesize", "tool": "toolname", "tagsat": "tags", "code": "op", "kind": "type",
	"stringlength": "textlen",
	"_":            "reserved",
}

func sameName(sdk, abi string) bool {
	sdk, abi = strings.ToLower(sdk), strings.ReplaceAll(abi, "_", "")
	if sdk == abi || spelled[sdk] == abi || spelled[abi] == sdk {
		return true
	}
	return sdk == strings.NewReplacer("offset", "at", "length", "len").Replace(abi)
}

func TestSDKLayouts(t *testing.T) {
	sdk := readSDK(t)
	for name, table := range map[string][]field{
		"preamble": preambleFields, "Record": recordFields, "Extra": extraFields, "configEntry": configFields, "opRecord": opFields,
	} {
		fields := sdk.layout(t, name)
		for _, f := range table {
			kind := strings.Replace(f.typ, "8 bytes", "u64", 1)
			place := fmt.Sprintf("%d %s", f.at, kind)
			if got, ok := fields[place]; !ok || !sameName(got, f.name) {
				t.Errorf("%s: at %s the SDK has %q, the ABI %s", name, place, got, f.name)
			}
			delete(fields, place)
		}
		if len(fields) > 0 {
			t.Errorf("%s: only the SDK has %v", name, fields)
		}
	}
}

func TestSDKNumbers(t *testing.T) {
	sdk := readSDK(t)
	for name, want := range map[string]uint64{
		"Version": abiVersion, "requestMagic": requestMagic, "planMagic": planMagic,
		"preambleSize": preambleSize, "recordSize": recordSize, "configEntrySize": configSize,
		"planHeaderSize": planHeaderSize, "opSize": opSize, "MaxReason": maxReason, "olderExist": flagOlderExist,
		"configInteger": typeInteger, "configFloat": typeFloat, "configBoolean": typeBoolean,
		"configString": typeString,
		"arenaRequest": arenaRequest, "arenaPlan": arenaPlan,
		"EarlierQuestion": uint64(specOf(plan.OpCompress, 1).template), "SizeStub": uint64(specOf(plan.OpStub, 1).template),
		"ReplaceArguments": uint64(plan.ReplaceArguments), "MaxScore": plan.MaxScore,
		"ImageParts": uint64(plan.PartImage), "AudioParts": uint64(plan.PartAudio),
		"DocumentParts": uint64(plan.PartDocument), "ThinkingParts": uint64(plan.PartThinking),
		"KeepStored": plan.KeepStored, "MaxPrompt": plan.MaxPrompt, "MaxAnswer": plan.MaxAnswer,
		"hookCount": uint64(len(plan.Hooks()) + 1), "extraSize": extraSize,
		"StoredOnly": plan.StoredOnly, "MaxLedger": plan.MaxLedger, "QuestionOverhead": plan.QuestionOverhead,
	} {
		if got := sdk.number(t, name); got != want {
			t.Errorf("%s is %d in the SDK, %d in the ABI", name, got, want)
		}
	}
	host := readSource(t, "../engine/plan", build.Default)
	for name, prefix := range map[string]string{"Role": "Role", "Kind": "Kind", "Flags": "Flag", "OpCode": "Op",
		"Hook": "Hook", "Origin": "Origin", "Trust": "Trust", "ExtraFlags": "Extra"} {
		own := prefix
		if name == "Origin" {
			own = "From"
		}
		got, want := sdk.ofType(name, own), host.ofType(name, prefix)
		if len(want) == 0 || !maps.Equal(got, want) {
			t.Errorf("%s: the SDK has %v, the host %v", name, got, want)
		}
	}
	for _, o := range opSpecs {
		name := "Op" + o.name[:1] + strings.ToLower(o.name[1:])
		if got := sdk.number(t, name); got != uint64(o.code) {
			t.Errorf("%s is %d in the SDK, %d in the ABI", name, got, o.code)
		}
	}
}

// The levels are a list in the text of the log function: 0 debug, 1 info, …
func TestSDKLevels(t *testing.T) {
	levels := readSDK(t).ofType("Level", "")
	for _, f := range mnemeFunctions() {
		if f.name != "log" {
			continue
		}
		list, _, _ := strings.Cut(f.doc, ";")
		for _, entry := range strings.Split(list, ", ") {
			value, name, _ := strings.Cut(entry, " ")
			name = strings.ToUpper(name[:1]) + name[1:]
			if name == "Error" {
				name = "Fault" // Error is a type in the SDK
			}
			if levels[name] != value {
				t.Errorf("level %s is %q in the SDK, %s in the ABI", name, levels[name], value)
			}
			delete(levels, name)
		}
	}
	if len(levels) > 0 {
		t.Errorf("only the SDK has the levels %v", levels)
	}
}

// Imports and exports are the directives of the SDK's functions.
func TestSDKFunctions(t *testing.T) {
	got := map[string]string{}
	sdk := readSDK(t)
	for _, file := range sdk.files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Doc == nil {
				continue
			}
			for _, c := range f.Doc.List {
				if directive, ok := strings.CutPrefix(c.Text, "//go:wasm"); ok {
					got[directive] = guestSignature(sdk.scope.Lookup(f.Name.Name).Type().(*types.Signature))
				}
			}
		}
	}
	want := map[string]string{}
	for _, f := range mnemeFunctions() {
		want["import "+hostModule+" "+f.name] = signature(f.params, f.results).String()
	}
	for _, f := range guestFunctions() {
		if !f.optional { // the compilers write _initialize
			want["export "+f.name] = signature(f.params, f.results).String()
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the SDK has %v, the ABI %v", got, want)
	}
}

// guestSignature returns a Go function's type as a module has it; pointers are addresses.
func guestSignature(f *types.Signature) string {
	values := func(tuple *types.Tuple) []wasm.ValueType {
		var list []wasm.ValueType
		for v := range tuple.Variables() {
			switch v.Type().String() {
			case "int32", "uint32", "unsafe.Pointer":
				list = append(list, wasm.ValueType(api.ValueTypeI32))
			default:
				list = append(list, 0)
			}
		}
		return list
	}
	return wasm.FuncType{Params: values(f.Params()), Results: values(f.Results())}.String()
}
