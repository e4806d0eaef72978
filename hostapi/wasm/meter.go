package wasm

import "fmt"

// meter compares what has been found with the limits. It keeps the first refusal.
type meter struct {
	bounds [quantities]bound
	found  [quantities]int
	err    *Refusal
}

// most records the largest value seen of a quantity.
func (m *meter) most(q quantity, n int) {
	if n > m.found[q] {
		m.found[q] = n
		m.check(q)
	}
}

// add adds to a sum over the whole module.
func (m *meter) add(q quantity, n int) {
	m.found[q] += n
	m.check(q)
}

func (m *meter) check(q quantity) {
	if b := &m.bounds[q]; m.found[q] > b.limit && m.err == nil {
		m.err = &Refusal{Check: b.name, Found: int64(m.found[q]), Limit: int64(b.limit)}
	}
}

// Names of the checks that are not counts.
const (
	checkFormat   = "format"
	checkFeatures = "features"
	checkImports  = "import_kinds"
	checkExports  = "export_names"
	checkStart    = "start"
	checkGrowth   = "table_growth"
)

// Check is something that was checked, for the response to an upload.
type Check struct {
	Name   string
	OK     bool
	Detail string
}

// checks lists everything that a module has passed.
func (m *meter) checks() []Check {
	list := []Check{
		{checkFormat, true, "well-formed binary, version 1"},
		{checkFeatures, true, "WebAssembly 2.0 without SIMD"},
		{checkImports, true, "functions only"},
		{checkExports, true, "unique, none reserved"},
		{checkStart, true, "no start function"},
		{checkGrowth, true, "no table grows"},
	}
	for q, b := range m.bounds {
		list = append(list, Check{b.name, true, fmt.Sprintf("%d of %d", m.found[q], b.limit)})
	}
	return list
}

// Refusal says which check a module failed. Found and Limit are set for counts, Detail for everything else.
type Refusal struct {
	Check        string
	Found, Limit int64
	Detail       string
}

func (e *Refusal) Error() string {
	if e.Detail != "" {
		return fmt.Sprintf("module refused: %s: %s", e.Check, e.Detail)
	}
	return fmt.Sprintf("module refused: %s: %d is over the limit of %d", e.Check, e.Found, e.Limit)
}
