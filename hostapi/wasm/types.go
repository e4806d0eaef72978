package wasm

// ValueType is the type of a parameter, result, local or global, in its binary form.
type ValueType byte

// The value types that a policy may use.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	FuncRef   ValueType = 0x70
	ExternRef ValueType = 0x6f
)

// String returns the type's name in the text format.
func (t ValueType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	}
	return "unknown"
}

func (t ValueType) isRef() bool { return t == FuncRef || t == ExternRef }

// FuncType is a function's signature.
type FuncType struct {
	Params, Results []ValueType
}

// String returns the signature as in `(i32, i32) -> i32`.
func (t FuncType) String() string {
	text := "(" + join(t.Params) + ")"
	switch len(t.Results) {
	case 0:
		return text
	case 1:
		return text + " -> " + join(t.Results)
	}
	return text + " -> (" + join(t.Results) + ")"
}

func join(types []ValueType) string {
	text := ""
	for i, t := range types {
		if i > 0 {
			text += ", "
		}
		text += t.String()
	}
	return text
}

// Import is one function that the module imports from its host.
type Import struct {
	Module, Name string
	Type         FuncType
}

// Kind is the kind of an export.
type Kind byte

// Kinds of exports, in their binary form.
const (
	KindFunc   Kind = 0
	KindTable  Kind = 1
	KindMemory Kind = 2
	KindGlobal Kind = 3
)

// Export is one export of the module. Type is set for functions.
type Export struct {
	Name  string
	Kind  Kind
	Index uint32
	Type  FuncType
}

// Global is a mutable global. A host reaches it by the reserved name that Prepare exports it under.
type Global struct {
	Export string
	Type   ValueType
}
