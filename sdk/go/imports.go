//go:build tinygo.wasm || wasip1

package mneme

import "unsafe"

//go:wasmimport mneme text
func hostText(record, offset uint32, ptr unsafe.Pointer, size uint32) int32

//go:wasmimport mneme tokens
func hostTokens(ptr unsafe.Pointer, size uint32) int32

//go:wasmimport mneme find
func hostFind(record uint32, ptr unsafe.Pointer, size uint32) int32

//go:wasmimport mneme log
func hostLog(level uint32, ptr unsafe.Pointer, size uint32)

//go:wasmimport mneme fail
func hostFail(ptr unsafe.Pointer, size uint32)

// hostFunctions is Host over the imports. It is a type of its own, not an interface, so that unused imports vanish.
type hostFunctions struct{}

func (hostFunctions) Text(record, offset int, buf []byte) int {
	return int(hostText(uint32(record), uint32(offset), unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf))))
}

func (hostFunctions) Tokens(text string) int {
	return int(hostTokens(unsafe.Pointer(unsafe.StringData(text)), uint32(len(text))))
}

func (hostFunctions) Find(record int, needle string) int {
	return int(hostFind(uint32(record), unsafe.Pointer(unsafe.StringData(needle)), uint32(len(needle))))
}

func (hostFunctions) Log(level Level, line string) {
	hostLog(uint32(level), unsafe.Pointer(unsafe.StringData(line)), uint32(len(line)))
}
