package model2vec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/testdata/staticmodel"
)

// The tokens of texts are those of Hugging Face's library, which made testdata/tokens.json. A run of unknown characters
// may be split otherwise, because unknown tokens do not count.
func TestTokensAreThoseOfTheReference(t *testing.T) {
	raw, err := os.ReadFile("testdata/tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var frozen map[string][]struct {
		Text string
		IDs  []int32
	}
	if err := json.Unmarshal(raw, &frozen); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"wordpiece", "unigram", "bpe"} {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		k, err := parseTokenizer(raw)
		if err != nil {
			t.Fatal(name, err)
		}
		if len(frozen[name]) == 0 {
			t.Errorf("%s: no texts", name)
		}
		known := func(ids []int32) []int32 {
			return slices.DeleteFunc(ids, func(id int32) bool { return id == k.unknown })
		}
		for _, c := range frozen[name] {
			if got := known(k.encode(c.Text)); !slices.Equal(got, known(c.IDs)) {
				t.Errorf("%s: %q has the tokens %v, want %v", name, c.Text, got, c.IDs)
			}
		}
	}
}

// words is a tokenizer with the tokens 0: unknown, 1: one, 2: two, 3: three.
const words = `{"pre_tokenizer":{"type":"Whitespace"},
	"model":{"type":"WordPiece","unk_token":"?","vocab":{"?":0,"one":1,"two":2,"three":3}}}`

func folder(tokenizer string, tensors []byte) fstest.MapFS {
	return fstest.MapFS{tokenizerFile: {Data: []byte(tokenizer)}, tensorsFile: {Data: tensors}}
}

// The kinds of numbers, clustered and weighted tables give the mean of the tokens' rows.
func TestVectorsAreMeans(t *testing.T) {
	rows := [][]float64{{9, 9}, {1, 0}, {0, 2}, {-3, .5}}
	encode := map[string]func([]byte, float64) []byte{
		"F64": func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint64(b, math.Float64bits(x)) },
		"F32": func(b []byte, x float64) []byte {
			return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
		},
		"F16": func(b []byte, x float64) []byte {
			fraction, exponent := math.Frexp(math.Abs(x))
			bits := uint16(0)
			if x != 0 {
				bits = uint16(exponent+14)<<10 | uint16(fraction*2048)&1023
			}
			if x < 0 {
				bits |= 1 << 15
			}
			return binary.LittleEndian.AppendUint16(b, bits)
		},
		"I8": func(b []byte, x float64) []byte { return append(b, byte(int8(2*x))) },
	}
	for kind, put := range encode {
		var table, weights, mapping []byte
		for _, row := range rows {
			table = put(put(table, row[0]), row[1])
		}
		for _, x := range []float64{1, 2, 1, .5} {
			weights = encode["F64"](weights, x)
		}
		for _, row := range []uint64{0, 3, 2, 1} {
			mapping = binary.LittleEndian.AppendUint64(mapping, row)
		}
		scale := 1.
		if kind == "I8" {
			scale = 2
		}
		tensors := map[string]staticmodel.Tensor{"embedding.weight": {DType: kind, Shape: []int{4, 2}, Data: table}}
		for _, c := range []struct {
			name string
			text string
			want [2]float64
		}{
			{"plain", "one two unknown", [2]float64{.5, 1}},
			{"plain", "three", [2]float64{-3, .5}},
			{"weighted and clustered", "one two", [2]float64{-3, 1.5}},
			{"weighted and clustered", "three three", [2]float64{.5, 0}},
		} {
			if c.name != "plain" {
				tensors["weights"] = staticmodel.Tensor{DType: "F64", Shape: []int{4}, Data: weights}
				tensors["mapping"] = staticmodel.Tensor{DType: "I64", Shape: []int{4}, Data: mapping}
			}
			m, err := read(folder(words, staticmodel.Tensors(t, tensors)))
			if err != nil {
				t.Fatal(kind, c.name, err)
			}
			got := m.Embed(c.text)
			for i := range got {
				if math.Abs(float64(got[i])-scale*c.want[i]) > .03 {
					t.Errorf("%s, %s: the vector of %q is %v, want %v times %v", kind, c.name, c.text, got, scale, c.want)
				}
			}
			if len(got) != 2 || m.Embed("unknown words") != nil || m.Embed("") != nil {
				t.Errorf("%s, %s: %v, and vectors of texts without known words", kind, c.name, got)
			}
		}
	}
}

// Only the first max_length tokens count, and another max_length is another model.
func TestLongTextsAreCut(t *testing.T) {
	tensors := staticmodel.Tensors(t, map[string]staticmodel.Tensor{"embeddings": {DType: "I8", Shape: []int{4, 2},
		Data: []byte{0, 0, 1, 0, 0, 1, 1, 1}}})
	files := folder(words, tensors)
	whole, err := read(files)
	if err != nil {
		t.Fatal(err)
	}
	files[configFile] = &fstest.MapFile{Data: []byte(`{"max_length":2,"normalize":true}`)}
	short, err := read(files)
	if err != nil {
		t.Fatal(err)
	}
	if got := short.Embed("one one two"); got[1] != 0 {
		t.Errorf("the third token counts: %v", got)
	}
	if got := whole.Embed("one one two"); got[1] == 0 {
		t.Errorf("the third token does not count: %v", got)
	}
	if short.Digest() == whole.Digest() {
		t.Error("two models have the same digest")
	}
}

// Whatever is wrong with a model is said when it is opened.
func TestBrokenModels(t *testing.T) {
	table := func(kind string, shape []int, data []byte) []byte {
		return staticmodel.Tensors(t, map[string]staticmodel.Tensor{"embeddings": {DType: kind, Shape: shape, Data: data}})
	}
	whole := table("I8", []int{4, 2}, make([]byte, 8))
	with := func(name, kind string, shape []int, data []byte) []byte {
		return staticmodel.Tensors(t, map[string]staticmodel.Tensor{
			"embeddings": {DType: "I8", Shape: []int{4, 2}, Data: make([]byte, 8)},
			name:         {DType: kind, Shape: shape, Data: data}})
	}
	nan := binary.LittleEndian.AppendUint32(make([]byte, 28), math.Float32bits(float32(math.NaN())))
	for _, c := range []struct {
		name, tokenizer string
		tensors         []byte
		want            string
	}{
		{"an empty file", words, nil, "too short"},
		{"a header longer than the file", words, binary.LittleEndian.AppendUint64(nil, 1<<40), "header has"},
		{"a header that is no JSON", words, append(binary.LittleEndian.AppendUint64(nil, 2), "{]"...), "no JSON"},
		{"a torn file", words, whole[:len(whole)-1], "from byte 0 to 8, but there are 7"},
		{"no table", words, staticmodel.Tensors(t, nil), "no tensor named embeddings"},
		{"a table of one dimension", words, table("I8", []int{8}, make([]byte, 8)), "has the shape [8]"},
		{"too few bytes", words, table("F32", []int{4, 2}, make([]byte, 8)), "needs 32"},
		{"a negative shape", words, table("I8", []int{-4, -2}, make([]byte, 8)), "shape is"},
		{"a shape that overflows", words, table("I8", []int{1 << 31, 1 << 31, 1 << 31}, nil), "shape is"},
		{"numbers of a kind that is not read", words, table("BF16", []int{4, 2}, make([]byte, 16)), "BF16"},
		{"a number that is not finite", words, table("F32", []int{4, 2}, nan), "row 3 has a number"},
		{"fewer rows than tokens", words, table("I8", []int{3, 2}, make([]byte, 6)), "has 3 rows"},
		{"fewer weights than tokens", words, with("weights", "F32", []int{2}, make([]byte, 8)), "weights has 2"},
		{"a weight that is not finite", words, with("weights", "F32", []int{8}, nan), "weight 7"},
		{"a row that is not there", words, with("mapping", "I64", []int{1}, binary.LittleEndian.AppendUint64(nil, 4)),
			"row 4 of 4"},
		{"no JSON", "{", whole, "tokenizer.json"},
		{"no model", "{}", whole, "there is no model"},
		{"a model that is not read", `{"model":{"type":"WordLevel"}}`, whole, `"WordLevel" is not supported`},
		{"no vocabulary", `{"model":{"type":"BPE"}}`, whole, "vocabulary is empty"},
		{"no unknown token", `{"model":{"type":"WordPiece","unk_token":"?","vocab":{"a":0}}}`, whole, `lacks the unknown token, "?"`},
		{"a huge token", `{"model":{"type":"BPE","vocab":{"a":2000000000}}}`, whole, "number 2000000000"},
		{"a negative token", `{"model":{"type":"BPE","vocab":{"a":-1}}}`, whole, "number -1"},
		{"an unknown token outside", `{"model":{"type":"Unigram","unk_id":7,"vocab":[["a",0]]}}`, whole, "unk_id is 7"},
		{"a piece without a score", `{"model":{"type":"Unigram","vocab":[["a","b"]]}}`, whole, "a text and a number"},
		{"dropout", `{"model":{"type":"BPE","dropout":0.1,"vocab":{"a":0}}}`, whole, "dropout"},
		{"a merge of nothing", `{"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}}`, whole, `merge "a" "b"`},
		{"bytes that are missing", `{"model":{"type":"BPE","byte_fallback":true,"vocab":{"a":0}}}`, whole, "<0x00>"},
		{"a normalizer that is not read", `{"normalizer":{"type":"Magic"}}`, whole, `"Magic" is not supported`},
		{"a splitter that is not read", `{"pre_tokenizer":{"type":"ByteLevel"}}`, whole, `"ByteLevel" is not supported`},
		{"a torn charsmap", `{"normalizer":{"type":"Precompiled","precompiled_charsmap":"/////w=="}}`, whole, "trie has"},
		{"an expression that is none", `{"normalizer":{"type":"Replace","pattern":{"Regex":"("},"content":""}}`, whole, "missing closing"},
		{"a text that grows", `{"normalizer":{"type":"Prepend","prepend":"` + strings.Repeat("x", 300) + `"}}`, whole, "longer than"},
		{"sequences without end", strings.Repeat(`{"normalizer":{"type":"Sequence","normalizers":[`, 1) +
			strings.Repeat(`{"type":"Sequence","normalizers":[`, 20) + strings.Repeat("]}", 21) + "}", whole, "too deeply"},
	} {
		if _, err := read(folder(c.tokenizer, c.tensors)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want one with %q", c.name, err, c.want)
		}
	}
	for _, missing := range []string{tensorsFile, tokenizerFile} {
		files := folder(words, whole)
		delete(files, missing)
		if _, err := read(files); err == nil || !strings.HasPrefix(err.Error(), missing+": ") {
			t.Errorf("without %s: %v", missing, err)
		}
		files[missing] = &fstest.MapFile{Mode: fs.ModeDir}
		if _, err := read(files); err == nil || !strings.HasPrefix(err.Error(), missing+": ") {
			t.Errorf("a folder named %s: %v", missing, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// Words of a group are nearer to each other than to those of another group, as tests of other packages rely on.
func TestOpen(t *testing.T) {
	m, err := Open(staticmodel.Write(t, []string{"guitar", "piano"}, []string{"cake", "oven"}))
	if err != nil {
		t.Fatal(err)
	}
	cosine := func(a, b string) float64 {
		x, y := m.Embed(a), m.Embed(b)
		var xy, xx, yy float64
		for i := range x {
			xy, xx, yy = xy+float64(x[i]*y[i]), xx+float64(x[i]*x[i]), yy+float64(y[i]*y[i])
		}
		return xy / math.Sqrt(xx*yy)
	}
	if alike, other := cosine("Guitar!", "a PIANO"), cosine("guitar", "cake"); alike < .7 || other > .4 {
		t.Errorf("cosines %.2f and %.2f", alike, other)
	}
	if m.Dimensions() != staticmodel.Dimensions {
		t.Errorf("%d dimensions", m.Dimensions())
	}
}

// No bytes crash the reader. Those that it accepts give finite vectors.
func FuzzModel(f *testing.F) {
	f.Add([]byte(words), staticmodel.Tensors(f, map[string]staticmodel.Tensor{"embeddings": {DType: "I8",
		Shape: []int{4, 2}, Data: []byte{0, 0, 1, 0, 0, 1, 1, 1}}}), "one two three")
	for _, name := range []string{"wordpiece", "unigram", "bpe"} {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, staticmodel.Tensors(f, map[string]staticmodel.Tensor{"embeddings": {DType: "I8",
			Shape: []int{500, 2}, Data: bytes.Repeat([]byte{1, 2}, 500)}}), "The tandem, ﬁnally: \x00\xff▁ é")
	}
	f.Fuzz(func(t *testing.T, tokenizer, tensors []byte, text string) {
		m, err := read(folder(string(tokenizer), tensors))
		if err != nil {
			if !utf8.ValidString(fmt.Sprintf("%q", err.Error())) {
				t.Error("the error is no text")
			}
			return
		}
		for _, x := range m.Embed(text[:min(len(text), 1000)]) {
			if x != x {
				t.Errorf("a vector that is not finite for %q", text)
			}
		}
	})
}
