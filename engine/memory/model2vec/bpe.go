package model2vec

import (
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// bpe splits a word into characters and joins neighbours in the order in which their pairs were learned.
type bpe struct {
	tokens   map[string]int32
	merges   map[[2]int32]merge
	unknown  int32
	fallback *fallback
	fuse     bool // unknown characters side by side are one token
	whole    bool // a word that is a token is not split
}

// merge is the token that a pair of tokens becomes. Those with a lower rank come first.
type merge struct {
	rank int
	id   int32
}

// pairText is a merge in JSON: "a b", or ["a", "b"].
type pairText [2]string

func (p *pairText) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' {
		return json.Unmarshal(raw, (*[2]string)(p))
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	var ok bool
	if p[0], p[1], ok = strings.Cut(text, " "); !ok {
		return fmt.Errorf("merge %q is no pair", text)
	}
	return nil
}

func parseBPE(raw json.RawMessage) (encoder, map[string]int32, int32, error) {
	var in struct {
		Unknown  *string          `json:"unk_token"`
		Dropout  *float64         `json:"dropout"`
		Prefix   *string          `json:"continuing_subword_prefix"`
		Suffix   *string          `json:"end_of_word_suffix"`
		Fallback bool             `json:"byte_fallback"`
		Fuse     bool             `json:"fuse_unk"`
		Whole    bool             `json:"ignore_merges"`
		Vocab    map[string]int32 `json:"vocab"`
		Merges   []pairText       `json:"merges"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, nil, -1, err
	}
	switch {
	case in.Dropout != nil && *in.Dropout != 0:
		return nil, nil, -1, errors.New("dropout would make vectors depend on chance")
	case in.Prefix != nil && *in.Prefix != "" || in.Suffix != nil && *in.Suffix != "":
		return nil, nil, -1, errors.New("continuing_subword_prefix and end_of_word_suffix are not supported")
	}
	b := &bpe{tokens: in.Vocab, merges: make(map[[2]int32]merge, len(in.Merges)), unknown: -1, fuse: in.Fuse,
		whole: in.Whole}
	if in.Unknown != nil {
		id, ok := in.Vocab[*in.Unknown]
		if !ok {
			return nil, nil, -1, fmt.Errorf("the vocabulary lacks the unknown token, %q", *in.Unknown)
		}
		b.unknown = id
	}
	for rank, p := range in.Merges {
		left, okLeft := in.Vocab[p[0]]
		right, okRight := in.Vocab[p[1]]
		id, ok := in.Vocab[p[0]+p[1]]
		if !okLeft || !okRight || !ok {
			return nil, nil, -1, fmt.Errorf("the vocabulary lacks a part of the merge %q %q, or the whole", p[0], p[1])
		}
		if _, twice := b.merges[[2]int32{left, right}]; !twice {
			b.merges[[2]int32{left, right}] = merge{rank, id}
		}
	}
	var err error
	if in.Fallback {
		b.fallback, err = fallbackOf(in.Vocab)
	}
	return b, in.Vocab, b.unknown, err
}

func (b *bpe) words(yield func(string, int32)) {
	for token, id := range b.tokens {
		if word, ok := strings.CutPrefix(token, wordMark); ok {
			yield(word, id)
		}
	}
}

// symbol is a part of a word, in a list of those that are left.
type symbol struct {
	id         int32 // −2 once it is part of the one before it
	prev, next int   // −1: none
}

const joined = -2

// candidate is a pair that may be joined: the symbol at left and the one behind it.
type candidate struct {
	merge
	left   int
	of     [2]int32 // the symbols when it was found
	behind int
}

// queue has the pair to join next first.
type queue []candidate

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].rank < q[j].rank || q[i].rank == q[j].rank && q[i].left < q[j].left
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (b *bpe) encode(out []int32, word string) []int32 {
	if id, ok := b.tokens[word]; ok && b.whole {
		return append(out, id)
	}
	var ids []int32
	for i, r := range word {
		char := word[i : i+utf8.RuneLen(r)]
		if id, ok := b.tokens[char]; ok {
			ids = append(ids, id)
		} else {
			ids = b.fallback.missing(ids, char, b.unknown, b.fuse)
		}
	}
	symbols := make([]symbol, len(ids))
	var q queue
	look := func(left int) {
		if left < 0 || symbols[left].next < 0 {
			return
		}
		of := [2]int32{symbols[left].id, symbols[symbols[left].next].id}
		if m, ok := b.merges[of]; ok {
			heap.Push(&q, candidate{m, left, of, symbols[left].next})
		}
	}
	for i, id := range ids {
		symbols[i] = symbol{id, i - 1, i + 1}
	}
	if len(symbols) > 0 {
		symbols[len(symbols)-1].next = -1
	}
	for i := range symbols {
		look(i)
	}
	for q.Len() > 0 {
		c := heap.Pop(&q).(candidate)
		left := &symbols[c.left]
		if left.id != c.of[0] || left.next != c.behind || symbols[c.behind].id != c.of[1] {
			continue // one of them was joined with another
		}
		left.id, left.next = c.id, symbols[c.behind].next
		symbols[c.behind].id = joined
		if left.next >= 0 {
			symbols[left.next].prev = c.left
		}
		look(left.prev)
		look(c.left)
	}
	for _, s := range symbols {
		if s.id != joined {
			out = append(out, s.id)
		}
	}
	return out
}
