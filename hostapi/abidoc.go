package hostapi

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

//go:generate go run ./abigen ../docs/ABI.md

// abiText is the prose of docs/ABI.md, with a place for each table.
//
//go:embed abi.md.tmpl
var abiText string

// WriteABI writes the documentation of the ABI from the tables that the host itself is built from.
func WriteABI(w io.Writer) error {
	t, err := template.New("abi").Parse(abiText)
	if err != nil {
		return err
	}
	return t.Execute(w, map[string]any{
		"Version":          fmt.Sprintf("%d.%d", abiMajor, abiMinor),
		"Packed":           abiVersion,
		"PreambleSize":     preambleSize,
		"RecordSize":       recordSize,
		"ConfigSize":       configSize,
		"StringSize":       stringSize,
		"HeaderSize":       planHeaderSize,
		"OpSize":           opSize,
		"MaxReason":        maxReason,
		"Section":          manifestSection,
		"Limits":           DefaultLimits(),
		"FuelPerCall":      fuelPerCall,
		"BytesPerFuel":     bytesPerFuel,
		"FuelPerTokenised": fuelPerTokenised,
		"FuelPerAnalysed":  fuelPerAnalysed,
		"ScoredText":       scoredText,
		"ScoredQuery":      scoredQuery,
		"LogLineBytes":     logLineBytes,
		"Exports":          exportTable(),
		"Functions":        functionTable(mnemeFunctions()),
		"WASI":             functionTable(wasiFunctions()),
		"Preamble":         fieldTable(preambleFields),
		"Record":           fieldTable(recordFields),
		"Config":           fieldTable(configFields),
		"String":           fieldTable(stringFields),
		"Plan":             fieldTable(planFields),
		"Op":               fieldTable(opFields),
		"ExtraSize":        extraSize,
		"Extra":            fieldTable(extraFields),
		"Hooks":            hookNames(),
		"Ops":              opTable(),
	})
}

func fieldTable(fields []field) string {
	var b strings.Builder
	b.WriteString("| at | type | field | meaning |\n|---|---|---|---|\n")
	for _, f := range fields {
		fmt.Fprintf(&b, "| %d | %s | `%s` | %s |\n", f.at, f.typ, f.name, f.doc)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func opTable() string {
	var b strings.Builder
	b.WriteString("| op | hooks | what the host does |\n|---|---|---|\n")
	for i := range opSpecs {
		o := &opSpecs[i]
		fmt.Fprintf(&b, "| %d %s | %s | %s |\n", o.code, o.name, o.hooks.names(), o.doc)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func exportTable() string {
	var b strings.Builder
	b.WriteString("| name | signature | meaning |\n|---|---|---|\n")
	fmt.Fprintf(&b, "| `%s` | | one linear memory |\n", exportMemory)
	for _, f := range guestFunctions() {
		doc := strings.ReplaceAll(f.doc, "|", `\|`)
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", f.name, signatureText(f.params, f.results), doc)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func functionTable(functions []hostFunction) string {
	var b strings.Builder
	b.WriteString("| name | signature | meaning |\n|---|---|---|\n")
	for _, f := range functions {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", f.name, signatureText(f.params, f.results), f.doc)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// signatureText returns a signature with named parameters, as in `(ptr i32, len i32) -> i32`.
func signatureText(params []param, results []api.ValueType) string {
	var names []string
	for _, p := range params {
		names = append(names, p.name+" "+api.ValueTypeName(p.typ))
	}
	text := "(" + strings.Join(names, ", ") + ")"
	for _, r := range results {
		text += " -> " + api.ValueTypeName(r)
	}
	return text
}

// hookList lists the hooks with their numbers.
func hookList() string {
	var all []string
	for _, h := range plan.Hooks() {
		all = append(all, fmt.Sprintf("%d %s", h, h))
	}
	return strings.Join(all, ", ")
}
