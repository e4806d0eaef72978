//go:build tinygo.wasm || wasip1

package mneme

import "unsafe"

//go:wasmimport mneme text
func hostText(record, offset uint32, ptr unsafe.Pointer, size uint32) int32

//go:wasmimport mneme tokens
func hostTokens(ptr unsafe.Pointer, size uint32) int32

//go:wasmimport mneme find
func hostFind(record uint32, ptr unsafe.Pointer, size uint32) int32

//go:wasmimport mneme args
func hostArgs(record, call, offset uint32, ptr unsafe.Pointer, size uint32) int32

//go:wasmimport mneme name
func hostName(record, call uint32, ptr unsafe.Pointer, size uint32) int32

//go:wasmimport mneme score
func hostScore(record uint32, ptr unsafe.Pointer, size uint32) int32

//go:wasmimport mneme search
func hostSearch(record uint32, call int32, from uint32, ptr unsafe.Pointer, size uint32) int32

//go:wasmimport mneme json
func hostJSON(record uint32, ptr unsafe.Pointer, size uint32, out unsafe.Pointer, capacity uint32) int32

//go:wasmimport mneme log
func hostLog(level uint32, ptr unsafe.Pointer, size uint32)

//go:wasmimport mneme fail
func hostFail(ptr unsafe.Pointer, size uint32)

// hostFunctions implements Host with the imports. It is used as a concrete type, not as an interface, so that unused
// imports are removed.
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

func (hostFunctions) Args(record, call, offset int, buf []byte) int {
	return int(hostArgs(uint32(record), uint32(call), uint32(offset), unsafe.Pointer(unsafe.SliceData(buf)),
		uint32(len(buf))))
}

func (hostFunctions) Name(record, call int, buf []byte) int {
	return int(hostName(uint32(record), uint32(call), unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf))))
}

func (hostFunctions) Score(record int, query string) int {
	return int(hostScore(uint32(record), unsafe.Pointer(unsafe.StringData(query)), uint32(len(query))))
}

func (hostFunctions) Search(record, call, from int, needle string) int {
	return int(hostSearch(uint32(record), int32(call), uint32(from), unsafe.Pointer(unsafe.StringData(needle)), uint32(len(needle))))
}

func (hostFunctions) JSON(record int, pointer string, buf []byte) int {
	return int(hostJSON(uint32(record), unsafe.Pointer(unsafe.StringData(pointer)), uint32(len(pointer)),
		unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf))))
}

func (hostFunctions) Log(level Level, line string) {
	hostLog(uint32(level), unsafe.Pointer(unsafe.StringData(line)), uint32(len(line)))
}
