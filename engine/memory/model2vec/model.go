// Package model2vec computes vectors of texts with static embedding models in the Model2Vec format. Such a model is a
// table with one vector for each token; the vector of a text is the mean of those of its tokens.
//
// A model is a folder with the files model.safetensors, tokenizer.json and, optionally, config.json. The package reads
// what public models use: WordPiece, Unigram and BPE vocabularies, clustered or weighted tables. It rejects everything
// else when it opens the folder, so that no text gets another vector than the model's authors meant.
//
// The format: https://github.com/MinishLab/model2vec
package model2vec

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"unicode"
	"unicode/utf8"
)

// The files of a model.
const (
	tensorsFile   = "model.safetensors"
	tokenizerFile = "tokenizer.json"
	configFile    = "config.json"
)

// Limits of a model.
const (
	maxDimensions = 4096
	maxRows       = 4 << 20
	maxNumbers    = 512 << 20 // rows times dimensions, each of which takes a byte of memory
	maxTokenizer  = 128 << 20 // bytes of tokenizer.json
	maxConfig     = 1 << 20   // bytes of config.json
)

// readerVersion changes when this package computes other vectors from the same files.
const readerVersion = 1

// defaultMaxLength is the number of tokens of a text that count, if config.json does not say.
const defaultMaxLength = 512

// Model is a model in memory. Its methods are safe for concurrent use.
type Model struct {
	tokens    *tokenizer
	rows      []int8    // the table: each row relative to its scale
	scales    []float32 // by row
	weights   []float32 // by token; nil if all are 1
	mapping   []int32   // the row of each token; nil if it is the token's number
	dims      int
	maxTokens int // of a text; 0 means no limit
	maxRunes  int // of a text, before it is split into tokens; 0 means no limit
	digest    [sha256.Size]byte
}

// config is config.json. What else it contains does not change vectors, except for their length.
type config struct {
	MaxLength *int `json:"max_length"`
}

// Open reads the model in a folder. An error names the file and what is wrong with it.
func Open(folder string) (*Model, error) {
	info, err := os.Stat(folder)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder", folder)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	m, err := read(root.FS())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return m, nil
}

// read reads a model from its files.
func read(files fs.FS) (*Model, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "model2vec %d\n", readerVersion)
	parsed := config{MaxLength: new(defaultMaxLength)}
	raw, err := readLimited(files, configFile, maxConfig)
	if err == nil {
		err = json.Unmarshal(raw, &parsed)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", configFile, err)
	}
	if parsed.MaxLength != nil && (*parsed.MaxLength < 1 || *parsed.MaxLength > 1<<20) {
		return nil, fmt.Errorf("%s: max_length is %d, want from 1 to %d, or null", configFile, *parsed.MaxLength, 1<<20)
	}
	fmt.Fprintf(sum, "%d\n%s", len(raw), raw)

	if raw, err = readLimited(files, tokenizerFile, maxTokenizer); err != nil {
		return nil, fmt.Errorf("%s: %w", tokenizerFile, err)
	}
	m := &Model{}
	if m.tokens, err = parseTokenizer(raw); err != nil {
		return nil, fmt.Errorf("%s: %w", tokenizerFile, err)
	}
	fmt.Fprintf(sum, "%d\n", len(raw))
	sum.Write(raw)
	if parsed.MaxLength != nil {
		m.maxTokens = *parsed.MaxLength
		m.maxRunes = m.maxTokens * max(m.tokens.medianLength, 1)
	}
	if err := m.readTensors(files, sum); err != nil {
		return nil, fmt.Errorf("%s: %w", tensorsFile, err)
	}
	sum.Sum(m.digest[:0])
	return m, nil
}

// readTensors reads the table and adds the file to a digest.
func (m *Model) readTensors(files fs.FS, sum io.Writer) error {
	f, err := openRegular(files, tensorsFile)
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := openTensors(f)
	if err != nil {
		return err
	}
	if err := m.readTable(t); err != nil {
		return err
	}
	if _, err := io.Copy(sum, io.NewSectionReader(t.file, 0, t.size)); err != nil {
		return err
	}
	for _, id := range m.tokens.ids {
		if m.mapping != nil {
			if int(id) >= len(m.mapping) {
				return fmt.Errorf("mapping has %d tokens, but the tokenizer's go up to %d", len(m.mapping), id)
			}
		} else if int(id) >= len(m.scales) {
			return fmt.Errorf("the table has %d rows, but the tokenizer's tokens go up to %d", len(m.scales), id)
		}
		if m.weights != nil && int(id) >= len(m.weights) {
			return fmt.Errorf("weights has %d tokens, but the tokenizer's go up to %d", len(m.weights), id)
		}
	}
	return nil
}

// readTable reads the tensors that make up the table.
func (m *Model) readTable(t *tensors) error {
	name := "embeddings"
	if _, ok := t.by[name]; !ok {
		name = "embedding.weight" // of sentence-transformers
	}
	table, ok := t.by[name]
	if !ok {
		return errors.New("there is no tensor named embeddings or embedding.weight")
	}
	if len(table.Shape) != 2 || table.Shape[0] < 1 || table.Shape[0] > maxRows || table.Shape[1] < 1 ||
		table.Shape[1] > maxDimensions || table.Shape[0]*table.Shape[1] > maxNumbers {
		return fmt.Errorf("%s has the shape %v, want up to %d rows of up to %d dimensions, and at most %d numbers",
			name, table.Shape, maxRows, maxDimensions, maxNumbers)
	}
	m.dims = int(table.Shape[1])
	m.rows = make([]int8, table.Shape[0]*table.Shape[1])
	m.scales = make([]float32, table.Shape[0])
	row := make([]float64, m.dims)
	for err := range t.each(name, row) {
		if err != nil {
			return err
		}
		at := t.row
		m.scales[at] = quantise(m.rows[at*m.dims:(at+1)*m.dims], row)
	}
	var err error
	if m.weights, err = t.weights(); err != nil {
		return err
	}
	m.mapping, err = t.mapping(len(m.scales))
	return err
}

// quantise writes a vector in steps of 1/127 of its largest number, and returns the size of a step.
func quantise(out []int8, row []float64) float32 {
	largest := 0.
	for _, x := range row {
		largest = max(largest, math.Abs(x))
	}
	scale := largest / 127
	if float32(scale) == 0 {
		return 0
	}
	for i, x := range row {
		out[i] = int8(math.Round(x / scale))
	}
	return float32(scale)
}

// Words calls yield with each token of the model that is a whole word of at least three letters, and its vector.
func (m *Model) Words(yield func(word string, vector []float32)) {
	m.tokens.words(func(word string, id int32) {
		letters := 0
		for _, r := range word {
			if !unicode.IsLetter(r) {
				return
			}
			letters++
		}
		if letters < 3 || id == m.tokens.unknown {
			return
		}
		vector := make([]float32, m.dims)
		m.add(vector, id, 1)
		yield(word, vector)
	})
}

// Digest identifies the model: the same files give the same vectors.
func (m *Model) Digest() [sha256.Size]byte { return m.digest }

// Dimensions returns the length of the vectors.
func (m *Model) Dimensions() int { return m.dims }

// Embed returns the mean vector of a text's tokens, or nil if the model knows none of them.
func (m *Model) Embed(text string) []float32 {
	if m.maxRunes > 0 && len(text) > m.maxRunes {
		n := 0
		for i := range text {
			if n == m.maxRunes {
				text = text[:i]
				break
			}
			n++
		}
	}
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	ids := m.tokens.encode(text)
	if m.maxTokens > 0 {
		ids = ids[:min(len(ids), m.maxTokens)]
	}
	ids = slices.DeleteFunc(ids, func(id int32) bool { return id == m.tokens.unknown })
	if len(ids) == 0 {
		return nil
	}
	sum := make([]float32, m.dims)
	for _, id := range ids {
		m.add(sum, id, 1/float32(len(ids)))
	}
	for _, x := range sum {
		if x != 0 {
			return sum
		}
	}
	return nil
}

// add adds a token's vector to a sum.
func (m *Model) add(sum []float32, id int32, share float32) {
	if m.weights != nil {
		share *= m.weights[id]
	}
	row := int(id)
	if m.mapping != nil {
		row = int(m.mapping[id])
	}
	share *= m.scales[row]
	for i, x := range m.rows[row*m.dims : (row+1)*m.dims] {
		sum[i] += share * float32(x)
	}
}

// openRegular opens a file. It asks what it is before, because opening a pipe would wait for its writer.
func openRegular(files fs.FS, name string) (fs.File, error) {
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, reason(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is no regular file")
	}
	f, err := files.Open(name)
	return f, reason(err)
}

// readLimited reads a file that must not be longer than a limit.
func readLimited(files fs.FS, name string, limit int64) ([]byte, error) {
	f, err := openRegular(files, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, reason(err)
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("is longer than %d bytes", limit)
	}
	return raw, nil
}

// reason returns an error of the file system without the path, which the caller names.
func reason(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}
