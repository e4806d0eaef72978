package model2vec

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
)

// A file in the safetensors format is the length of its header (8 bytes, little-endian), the header (JSON: name →
// dtype, shape, data_offsets), and the data. https://github.com/huggingface/safetensors

// maxHeader limits the header in bytes.
const maxHeader = 1 << 20

// tensor describes a tensor in a file.
type tensor struct {
	DType   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"` // in the data
}

// widths are the sizes of the numbers that are read, in bytes.
var widths = map[string]int64{"F64": 8, "F32": 4, "F16": 2, "I64": 8, "I32": 4, "I8": 1}

// tensors is an open file of tensors.
type tensors struct {
	file io.ReaderAt
	size int64 // of the file
	data int64 // where the data begins
	by   map[string]tensor
	row  int // the number of the row that each yields
}

// openTensors reads the header of a file, and checks the places of the tensors.
func openTensors(f fs.File) (*tensors, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, reason(err)
	}
	file, ok := f.(io.ReaderAt)
	if !ok {
		return nil, errors.New("cannot be read at a position")
	}
	t := &tensors{file: file, size: info.Size()}
	var length [8]byte
	if _, err := file.ReadAt(length[:], 0); err != nil {
		return nil, errors.New("is too short to be a file of tensors")
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > t.size-8 {
		return nil, fmt.Errorf("is no file of tensors, or torn: its header has %d bytes, the file %d", n, t.size)
	}
	header := make([]byte, n)
	if _, err := file.ReadAt(header, 8); err != nil {
		return nil, reason(err)
	}
	t.data = 8 + int64(n)
	var named map[string]json.RawMessage
	if err := json.Unmarshal(header, &named); err != nil {
		return nil, fmt.Errorf("its header is no JSON: %w", err)
	}
	delete(named, "__metadata__")
	t.by = make(map[string]tensor, len(named))
	for name, raw := range named {
		one := tensor{}
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		if err := t.check(one); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		t.by[name] = one
	}
	return t, nil
}

// check checks that a tensor is inside the file and has the bytes of its shape.
func (t *tensors) check(one tensor) error {
	from, to := one.Offsets[0], one.Offsets[1]
	if from < 0 || to < from || to > t.size-t.data {
		return fmt.Errorf("it is from byte %d to %d, but there are %d", from, to, t.size-t.data)
	}
	want, known := widths[one.DType]
	for _, n := range one.Shape {
		if n < 0 || n > math.MaxInt32 || want > math.MaxInt64/max(n, 1) {
			return fmt.Errorf("its shape is %v", one.Shape)
		}
		want *= n
	}
	if known && to-from != want {
		return fmt.Errorf("it has %d bytes, but its shape %v of %s needs %d", to-from, one.Shape, one.DType, want)
	}
	return nil
}

// each reads a tensor of two dimensions row by row, into row. The number of the row is t.row. It stops after an error.
func (t *tensors) each(name string, row []float64) iter.Seq[error] {
	return func(yield func(error) bool) {
		one := t.by[name]
		width := widths[one.DType]
		if width == 0 || one.DType[0] == 'I' && one.DType != "I8" {
			yield(fmt.Errorf("tensor %q has numbers of the kind %s, want F64, F32, F16 or I8", name, one.DType))
			return
		}
		in := bufio.NewReaderSize(io.NewSectionReader(t.file, t.data+one.Offsets[0], one.Offsets[1]-one.Offsets[0]), 1<<20)
		raw := make([]byte, width*int64(len(row)))
		for t.row = range int(one.Shape[0]) {
			if _, err := io.ReadFull(in, raw); err != nil {
				yield(reason(err))
				return
			}
			for i := range row {
				row[i] = number(one.DType, raw[int64(i)*width:])
				if a := math.Abs(row[i]); a != a || a > math.MaxFloat32 {
					yield(fmt.Errorf("tensor %q: row %d has a number that is not finite", name, t.row))
					return
				}
			}
			if !yield(nil) {
				return
			}
		}
	}
}

// number decodes a number.
func number(kind string, raw []byte) float64 {
	switch kind {
	case "F64":
		return math.Float64frombits(binary.LittleEndian.Uint64(raw))
	case "F32":
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	case "F16":
		return half(binary.LittleEndian.Uint16(raw))
	case "I64":
		return float64(int64(binary.LittleEndian.Uint64(raw)))
	case "I32":
		return float64(int32(binary.LittleEndian.Uint32(raw)))
	}
	return float64(int8(raw[0]))
}

// half decodes an IEEE 754 number of 16 bits.
func half(bits uint16) float64 {
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	var x float64
	switch exponent {
	case 0:
		x = math.Ldexp(fraction, -24)
	case 31:
		return math.NaN() // or infinite, which is not finite either
	default:
		x = math.Ldexp(1024+fraction, exponent-25)
	}
	if bits>>15 == 1 {
		return -x
	}
	return x
}

// list reads a tensor of one dimension, or returns nil if there is none with that name.
func (t *tensors) list(name string, kinds ...string) ([]float64, error) {
	one, ok := t.by[name]
	if !ok {
		return nil, nil
	}
	known := false
	for _, kind := range kinds {
		known = known || kind == one.DType
	}
	if !known || len(one.Shape) != 1 || one.Shape[0] > maxRows {
		return nil, fmt.Errorf("tensor %q is %s %v, want one dimension of up to %d numbers of %v", name, one.DType, one.Shape,
			maxRows, kinds)
	}
	raw := make([]byte, one.Offsets[1]-one.Offsets[0])
	if _, err := t.file.ReadAt(raw, t.data+one.Offsets[0]); err != nil && !errors.Is(err, io.EOF) {
		return nil, reason(err)
	}
	out := make([]float64, one.Shape[0])
	for i := range out {
		out[i] = number(one.DType, raw[int64(i)*widths[one.DType]:])
	}
	return out, nil
}

// weights reads the weights of tokens, if there are any.
func (t *tensors) weights() (out []float32, err error) {
	numbers, err := t.list("weights", "F64", "F32", "F16")
	for i, x := range numbers {
		if a := math.Abs(x); a != a || a > math.MaxFloat32 {
			return nil, fmt.Errorf("weight %d is not finite", i)
		}
		out = append(out, float32(x))
	}
	return out, err
}

// mapping reads the rows of tokens, if they are not the tokens' numbers.
func (t *tensors) mapping(rows int) (out []int32, err error) {
	numbers, err := t.list("mapping", "I64", "I32")
	for i, x := range numbers {
		if x < 0 || x >= float64(rows) {
			return nil, fmt.Errorf("token %d is mapped to row %.0f of %d", i, x, rows)
		}
		out = append(out, int32(x))
	}
	return out, err
}
