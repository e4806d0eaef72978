package model2vec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// tokenizer splits texts into tokens as described by a tokenizer.json of Hugging Face's library. A text that spells a
// special token, such as [MASK], counts as ordinary text.
type tokenizer struct {
	normalise    func(string) string
	split        func([]string) []string
	model        encoder
	unknown      int32   // the token for text that is not in the vocabulary, or -1
	ids          []int32 // all tokens
	medianLength int     // of the tokens, in code points
}

// encoder appends the tokens of a word.
type encoder interface {
	encode(out []int32, word string) []int32
	// words calls yield with each token that stands for a whole word, in any order.
	words(yield func(word string, id int32))
}

// wordMark begins the tokens of Unigram and BPE models that begin a word.
const wordMark = "▁"

// words calls yield with each token that stands for a whole word, in the order of their numbers.
func (t *tokenizer) words(yield func(word string, id int32)) {
	var all []piece
	t.model.words(func(word string, id int32) { all = append(all, piece{word, id}) })
	slices.SortFunc(all, func(a, b piece) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.text, b.text)) })
	for _, p := range all {
		yield(p.text, p.id)
	}
}

// maxToken is the greatest number of a token.
const maxToken = maxRows - 1

// encode returns the tokens of a text.
func (t *tokenizer) encode(text string) (out []int32) {
	for _, word := range t.split([]string{t.normalise(text)}) {
		if word != "" {
			out = t.model.encode(out, word)
		}
	}
	return out
}

// typed is any part of a tokenizer.json. Which fields it has depends on its type.
type typed struct {
	Type string `json:"type"`
}

// parseTokenizer parses a tokenizer.json.
func parseTokenizer(raw []byte) (*tokenizer, error) {
	var parts struct {
		Normalizer   json.RawMessage `json:"normalizer"`
		PreTokenizer json.RawMessage `json:"pre_tokenizer"`
		Model        json.RawMessage `json:"model"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, err
	}
	t := &tokenizer{unknown: -1}
	var err error
	if t.normalise, err = parseNormalizer(parts.Normalizer, 0); err != nil {
		return nil, err
	}
	if t.split, err = parseSplitter(parts.PreTokenizer, 0); err != nil {
		return nil, err
	}
	var of typed
	if absent(parts.Model) {
		return nil, errors.New("there is no model")
	}
	if err := json.Unmarshal(parts.Model, &of); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	var tokens map[string]int32
	switch of.Type {
	case "WordPiece":
		t.model, tokens, t.unknown, err = parseWordPiece(parts.Model)
	case "Unigram":
		t.model, tokens, t.unknown, err = parseUnigram(parts.Model)
	case "BPE":
		t.model, tokens, t.unknown, err = parseBPE(parts.Model)
	default:
		err = fmt.Errorf("type %q is not supported, want WordPiece, Unigram or BPE", of.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return t, t.measure(tokens)
}

// measure checks the vocabulary and computes the median length of its tokens.
func (t *tokenizer) measure(tokens map[string]int32) error {
	if len(tokens) == 0 {
		return errors.New("model: the vocabulary is empty")
	}
	lengths := make([]int, 0, len(tokens))
	for token, id := range tokens {
		if id < 0 || id > maxToken {
			return fmt.Errorf("model: token %q has the number %d, want from 0 to %d", token, id, maxToken)
		}
		t.ids = append(t.ids, id)
		lengths = append(lengths, utf8.RuneCountInString(token))
	}
	slices.Sort(lengths)
	n := len(lengths)
	t.medianLength = (lengths[n/2] + lengths[(n-1)/2]) / 2
	return nil
}

// absent reports whether an optional part is missing.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// maxNesting limits sequences inside sequences.
const maxNesting = 8

// wordPiece splits a word into the longest tokens, from its beginning.
type wordPiece struct {
	prefix      string           // of tokens inside words
	first, next map[string]int32 // tokens that begin words, and those inside words
	longest     int              // bytes of a token
	unknown     int32
	maxRunes    int // of a word; longer ones are unknown
}

func parseWordPiece(raw json.RawMessage) (encoder, map[string]int32, int32, error) {
	in := struct {
		Unknown string           `json:"unk_token"`
		Prefix  string           `json:"continuing_subword_prefix"`
		Most    int              `json:"max_input_chars_per_word"`
		Vocab   map[string]int32 `json:"vocab"`
	}{Prefix: "##", Most: 100}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, nil, -1, err
	}
	unknown, ok := in.Vocab[in.Unknown]
	if !ok {
		return nil, nil, -1, fmt.Errorf("the vocabulary lacks the unknown token, %q", in.Unknown)
	}
	w := &wordPiece{prefix: in.Prefix, first: map[string]int32{}, next: map[string]int32{}, unknown: unknown, maxRunes: in.Most}
	for token, id := range in.Vocab {
		w.first[token] = id
		if rest, ok := strings.CutPrefix(token, in.Prefix); ok && rest != "" {
			w.next[rest] = id
		}
		w.longest = max(w.longest, len(token))
	}
	return w, in.Vocab, unknown, nil
}

func (w *wordPiece) encode(out []int32, word string) []int32 {
	start := len(out)
	if utf8.RuneCountInString(word) > w.maxRunes {
		return append(out, w.unknown)
	}
	for from, tokens := 0, w.first; from < len(word); tokens = w.next {
		to := min(len(word), from+w.longest)
		for ; to > from; to-- {
			if id, ok := tokens[word[from:to]]; ok {
				out = append(out, id)
				break
			}
		}
		if to == from {
			return append(out[:start], w.unknown)
		}
		from = to
	}
	return out
}

func (w *wordPiece) words(yield func(string, int32)) {
	for token, id := range w.first {
		if w.prefix == "" || !strings.HasPrefix(token, w.prefix) {
			yield(token, id)
		}
	}
}

// fallback has the tokens of single bytes, which are used for characters that are not in the vocabulary.
type fallback [256]int32

// fallbackOf returns the tokens of bytes in a vocabulary, or an error if one is missing.
func fallbackOf(tokens map[string]int32) (*fallback, error) {
	f := &fallback{}
	for i := range f {
		name := fmt.Sprintf("<0x%02X>", i)
		id, ok := tokens[name]
		if !ok {
			return nil, fmt.Errorf("byte_fallback is set, but the vocabulary lacks %s", name)
		}
		f[i] = id
	}
	return f, nil
}

// missing appends the tokens of a character that the vocabulary lacks: those of its bytes, or the unknown one. With
// fuse, several unknown characters side by side are one token.
func (f *fallback) missing(out []int32, char string, unknown int32, fuse bool) []int32 {
	if f == nil {
		if fuse && len(out) > 0 && out[len(out)-1] == unknown {
			return out
		}
		return append(out, unknown)
	}
	for i := range len(char) {
		out = append(out, f[char[i]])
	}
	return out
}

// unigram splits a word into the tokens whose scores have the greatest sum.
type unigram struct {
	pieces   []piece // by their texts
	scores   []float64
	lowest   float64 // score of a character that the vocabulary lacks
	unknown  int32
	fallback *fallback
}

type piece struct {
	text string
	id   int32
}

// scored is a piece of a Unigram vocabulary in JSON: a pair of text and score.
type scored struct {
	text  string
	score float64
}

func (s *scored) UnmarshalJSON(raw []byte) error {
	pair := [2]any{}
	if err := json.Unmarshal(raw, &pair); err != nil {
		return err
	}
	text, isText := pair[0].(string)
	score, isNumber := pair[1].(float64)
	if !isText || !isNumber {
		return errors.New("a piece of the vocabulary must be a text and a number")
	}
	*s = scored{text, score}
	return nil
}

// unknownPenalty is how much less a character that the vocabulary lacks scores than the token with the lowest score.
const unknownPenalty = 10

func parseUnigram(raw json.RawMessage) (encoder, map[string]int32, int32, error) {
	var in struct {
		Unknown  *int32   `json:"unk_id"`
		Fallback bool     `json:"byte_fallback"`
		Vocab    []scored `json:"vocab"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, nil, -1, err
	}
	if len(in.Vocab) > maxToken {
		return nil, nil, -1, fmt.Errorf("the vocabulary has %d tokens, at most %d are allowed", len(in.Vocab), maxToken)
	}
	u := &unigram{unknown: -1}
	if in.Unknown != nil {
		if *in.Unknown < 0 || int(*in.Unknown) >= len(in.Vocab) {
			return nil, nil, -1, fmt.Errorf("unk_id is %d, but there are %d tokens", *in.Unknown, len(in.Vocab))
		}
		u.unknown = *in.Unknown
	}
	tokens := make(map[string]int32, len(in.Vocab))
	for i, p := range in.Vocab {
		tokens[p.text] = int32(i)
		u.scores = append(u.scores, p.score)
		u.lowest = min(u.lowest, p.score)
		if p.text != "" {
			u.pieces = append(u.pieces, piece{p.text, int32(i)})
		}
	}
	u.lowest -= unknownPenalty
	slices.SortFunc(u.pieces, func(a, b piece) int { return cmp.Compare(a.text, b.text) })
	var err error
	if in.Fallback {
		u.fallback, err = fallbackOf(tokens)
	}
	return u, tokens, u.unknown, err
}

func (u *unigram) words(yield func(string, int32)) {
	for _, p := range u.pieces {
		if word, ok := strings.CutPrefix(p.text, wordMark); ok {
			yield(word, p.id)
		}
	}
}

// step is the best way to a place in a word: the token that ends there, and where it begins.
type step struct {
	score float64
	from  int
	id    int32
	known bool // the token is in the vocabulary
	there bool
}

func (u *unigram) encode(out []int32, word string) []int32 {
	best := make([]step, len(word)+1)
	best[0].there = true
	for from := 0; from < len(word); {
		_, width := utf8.DecodeRuneInString(word[from:])
		single := false
		add := func(to int, s step) {
			s.score += best[from].score
			s.from, s.there = from, true
			if !best[to].there || s.score > best[to].score {
				best[to] = s
			}
		}
		u.match(word[from:], func(length int, id int32) {
			single = single || length == width
			add(from+length, step{score: u.scores[id], id: id, known: true})
		})
		if !single {
			add(from+width, step{score: u.lowest})
		}
		from += width
	}
	var path []int // ends of the tokens, the last first
	for at := len(word); at > 0; at = best[at].from {
		path = append(path, at)
	}
	var ids []int32
	for _, at := range slices.Backward(path) {
		if s := best[at]; s.known {
			ids = append(ids, s.id)
		} else {
			ids = u.fallback.missing(ids, word[s.from:at], u.unknown, true)
		}
	}
	return append(out, ids...)
}

// match reports each token with which a text begins, shortest first.
func (u *unigram) match(text string, found func(length int, id int32)) {
	some := u.pieces
	for n := 1; n <= len(text) && len(some) > 0; n++ {
		b := text[n-1]
		low, _ := slices.BinarySearchFunc(some, b, func(p piece, b byte) int { return atByte(p, n, int(b)) })
		high, _ := slices.BinarySearchFunc(some, int(b)+1, func(p piece, b int) int { return atByte(p, n, b) })
		some = some[low:high]
		if len(some) > 0 && len(some[0].text) == n {
			found(n, some[0].id)
		}
	}
}

// atByte compares the n-th byte of a piece, counted from 1, with another. A piece that is shorter comes first.
func atByte(p piece, n, b int) int {
	if len(p.text) < n {
		return -1
	}
	return cmp.Compare(int(p.text[n-1]), b)
}
