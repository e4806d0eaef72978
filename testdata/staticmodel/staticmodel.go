// Package staticmodel writes small static embedding models in the Model2Vec format, for tests.
package staticmodel

import (
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// Dimensions is the number of dimensions of a vector.
const Dimensions = 32

// Write writes a model whose words are alike if they are in the same group, into a new folder. Its vocabulary is a
// WordPiece of lower-case words, so it knows no other words.
func Write(t testing.TB, groups ...[]string) (folder string) {
	t.Helper()
	vocabulary := map[string]int{"[PAD]": 0, "[UNK]": 1}
	rows := make([]float32, 2*Dimensions)
	for _, group := range groups {
		for _, word := range group {
			vocabulary[word] = len(vocabulary)
			for i := range Dimensions {
				rows = append(rows, direction(group[0], i)+.4*direction(word+" itself", i))
			}
		}
	}
	folder = t.TempDir()
	write(t, folder, "config.json", []byte(`{"normalize":true}`))
	write(t, folder, "tokenizer.json", encoded(t, map[string]any{
		"normalizer":    map[string]any{"type": "BertNormalizer", "clean_text": true, "lowercase": true},
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"model":         map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "vocab": vocabulary},
	}))
	data := make([]byte, 0, 4*len(rows))
	for _, x := range rows {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	write(t, folder, "model.safetensors", Tensors(t, map[string]Tensor{
		"embeddings": {DType: "F32", Shape: []int{len(vocabulary), Dimensions}, Data: data}}))
	return folder
}

// direction returns a coordinate, from −1 to 1, of a direction that depends on a text.
func direction(text string, i int) float32 {
	h := fnv.New64a()
	h.Write(append([]byte(text), byte(i)))
	x := h.Sum64() * 0x9E3779B97F4A7C15
	return float32(int32(x>>32)) / math.MaxInt32
}

// Tensor is a tensor of a file in the safetensors format.
type Tensor struct {
	DType string
	Shape []int
	Data  []byte
}

// Tensors encodes tensors.
func Tensors(t testing.TB, some map[string]Tensor) []byte {
	t.Helper()
	header, data := map[string]any{}, []byte(nil)
	for name, one := range some {
		header[name] = map[string]any{"dtype": one.DType, "shape": one.Shape,
			"data_offsets": []int{len(data), len(data) + len(one.Data)}}
		data = append(data, one.Data...)
	}
	raw := encoded(t, header)
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(raw))), raw...), data...)
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func write(t testing.TB, folder, name string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
