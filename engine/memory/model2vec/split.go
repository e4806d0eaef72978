package model2vec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitter holds the fields of all kinds of pre-tokenizers.
type splitter struct {
	typed
	PreTokenizers []json.RawMessage `json:"pretokenizers"`
	Replacement   string            `json:"replacement"`
	Scheme        *string           `json:"prepend_scheme"`
	AddSpace      *bool             `json:"add_prefix_space"` // of earlier files, instead of prepend_scheme
	Split         *bool             `json:"split"`
	Behavior      string            `json:"behavior"`
	Individual    bool              `json:"individual_digits"`
}

// parseSplitter returns the function by which a pre-tokenizer splits the parts of a text further.
func parseSplitter(raw json.RawMessage, depth int) (func([]string) []string, error) {
	if absent(raw) {
		return func(parts []string) []string { return parts }, nil
	}
	s := splitter{}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	switch s.Type {
	case "Sequence":
		return s.sequence(depth)
	case "BertPreTokenizer":
		return each(func(r rune) (class int, alone bool) {
			switch {
			case unicode.IsSpace(r):
				return dropped, false
			case isPunctuation(r):
				return 1, true
			}
			return 2, false
		}), nil
	case "Whitespace":
		return each(func(r rune) (class int, alone bool) {
			switch {
			case unicode.IsSpace(r):
				return dropped, false
			case isWord(r):
				return 1, false
			}
			return 2, false
		}), nil
	case "WhitespaceSplit":
		return each(func(r rune) (class int, alone bool) {
			if unicode.IsSpace(r) {
				return dropped, false
			}
			return 1, false
		}), nil
	case "Punctuation":
		if s.Behavior != "" && s.Behavior != "Isolated" {
			return nil, fmt.Errorf("pre_tokenizer: Punctuation with the behavior %q is not supported, want Isolated", s.Behavior)
		}
		return each(func(r rune) (class int, alone bool) { return truth(isPunctuation(r)), isPunctuation(r) }), nil
	case "Digits":
		return each(func(r rune) (class int, alone bool) {
			return truth(unicode.IsNumber(r)), unicode.IsNumber(r) && s.Individual
		}), nil
	case "Metaspace":
		return s.metaspace()
	}
	return nil, fmt.Errorf("pre_tokenizer: type %q is not supported", s.Type)
}

func (s *splitter) sequence(depth int) (func([]string) []string, error) {
	if depth == maxNesting {
		return nil, errors.New("pre_tokenizer: sequences are nested too deeply")
	}
	var all []func([]string) []string
	for _, raw := range s.PreTokenizers {
		one, err := parseSplitter(raw, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return func(parts []string) []string {
		for _, one := range all {
			parts = one(parts)
		}
		return parts
	}, nil
}

// metaspace replaces spaces by a visible character and splits before each.
func (s *splitter) metaspace() (func([]string) []string, error) {
	if s.Replacement == "" {
		s.Replacement = "▁"
	}
	if utf8.RuneCountInString(s.Replacement) != 1 {
		return nil, errors.New("pre_tokenizer: Metaspace's replacement must be one character")
	}
	scheme := "always"
	if s.AddSpace != nil && !*s.AddSpace {
		scheme = "never"
	}
	if s.Scheme != nil {
		scheme = *s.Scheme
	}
	if !slices.Contains([]string{"always", "never", "first"}, scheme) {
		return nil, fmt.Errorf("pre_tokenizer: Metaspace's prepend_scheme %q is not known", scheme)
	}
	return func(parts []string) (out []string) {
		for i, part := range parts {
			if part == "" {
				continue
			}
			part = strings.ReplaceAll(part, " ", s.Replacement)
			if (scheme == "always" || scheme == "first" && i == 0) && !strings.HasPrefix(part, s.Replacement) {
				part = s.Replacement + part
			}
			if s.Split != nil && !*s.Split {
				out = append(out, part)
				continue
			}
			for part != "" {
				_, width := utf8.DecodeRuneInString(part)
				next := strings.Index(part[width:], s.Replacement)
				if next < 0 {
					break
				}
				out, part = append(out, part[:width+next]), part[width+next:]
			}
			out = append(out, part)
		}
		return out
	}, nil
}

// dropped is the class of characters that separate words and belong to none.
const dropped = -1

// each returns a function that splits texts where the class of characters changes, and around those that stand alone.
func each(classOf func(rune) (class int, alone bool)) func([]string) []string {
	return func(parts []string) (out []string) {
		for _, part := range parts {
			from, last := 0, dropped
			for i, r := range part {
				class, alone := classOf(r)
				if class != last || alone {
					if last != dropped && i > from {
						out = append(out, part[from:i])
					}
					from = i
				}
				last = class
			}
			if last != dropped && from < len(part) {
				out = append(out, part[from:])
			}
		}
		return out
	}
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// isPunctuation reports whether a character is punctuation for BERT: in ASCII everything that is not a letter, digit or
// space, and otherwise Unicode's punctuation.
func isPunctuation(r rune) bool {
	return unicode.IsPunct(r) || r > ' ' && r < 0x7F && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// isWord reports whether a character is a word character of regular expressions.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic,
		unicode.Join_Control)
}
