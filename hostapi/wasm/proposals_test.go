package wasm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// A refusal names the unsupported part of WebAssembly as toolchains do.
func TestRefusalsNameTheFeature(t *testing.T) {
	for _, c := range []struct {
		code []byte
		want string
	}{
		{function(Op(0xfd, 12)), "SIMD is not available (opcode 0xfd)"},
		{module(Section(1, []byte{1, 0x60, 1, 0x7b, 0})), "SIMD is not available (value type 0x7b)"},
		{function(Op(0x02, 0x7b), Op(0x0b)), "SIMD is not available (block type"},
		{function(Op(0xfe, 3, 0)), "threads and atomics are not available"},
		{module(Section(5, []byte{1, 3, 1, 1})), "threads and atomics are not available"},
		{module(Section(5, []byte{1, 4, 1})), "64-bit memory is not available"},
		{function(Op(0x08, 0)), "exception handling is not available"},
		{module(Section(13, []byte{0})), "exception handling is not available (section 13)"},
		{function(Op(0x12, 0)), "tail calls are not available"},
		{function(Op(0x14, 0)), "typed function references are not available"},
		{module(Section(1, []byte{1, 0x5f, 0})), "garbage collection is not available (type form 0x5f)"},
		{function(Op(0xff, 0)), "opcode 0xff is not supported"},
		{module(Section(14, nil)), "section 14 is not supported"},
	} {
		_, err := wasm.Prepare(c.code, wasm.DefaultLimits())
		var refusal *wasm.Refusal
		if !errors.As(err, &refusal) || refusal.Check != "features" || !strings.Contains(refusal.Detail, c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
