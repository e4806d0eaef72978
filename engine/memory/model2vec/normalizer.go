package model2vec

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// forms are Unicode's normalisation forms by their names in tokenizer.json.
var forms = map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}

// normalizer holds the fields of all kinds of normalizers.
type normalizer struct {
	typed
	Normalizers  []json.RawMessage `json:"normalizers"`
	CleanText    bool              `json:"clean_text"`
	Chinese      bool              `json:"handle_chinese_chars"`
	StripAccents *bool             `json:"strip_accents"`
	Lower        bool              `json:"lowercase"`
	Left         bool              `json:"strip_left"`
	Right        bool              `json:"strip_right"`
	Prepend      string            `json:"prepend"`
	Content      string            `json:"content"`
	Charsmap     string            `json:"precompiled_charsmap"`
	Pattern      struct {
		String *string `json:"String"`
		Regex  *string `json:"Regex"`
	} `json:"pattern"`
}

// parseNormalizer returns the function that a normalizer computes.
func parseNormalizer(raw json.RawMessage, depth int) (func(string) string, error) {
	if absent(raw) {
		return func(text string) string { return text }, nil
	}
	n := normalizer{}
	if err := json.Unmarshal(raw, &n); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if max(len(n.Prepend), len(n.Content)) > maxReplacement {
		return nil, fmt.Errorf("normalizer: a text in place of another is longer than %d bytes", maxReplacement)
	}
	if form, ok := forms[n.Type]; ok {
		return form.String, nil
	}
	switch n.Type {
	case "Sequence":
		return n.sequence(depth)
	case "BertNormalizer":
		return n.bert, nil
	case "Lowercase":
		return lower, nil
	case "StripAccents":
		return func(text string) string { return without(text, unicode.M) }, nil
	case "Strip":
		return func(text string) string {
			if n.Left {
				text = strings.TrimLeftFunc(text, unicode.IsSpace)
			}
			if n.Right {
				text = strings.TrimRightFunc(text, unicode.IsSpace)
			}
			return text
		}, nil
	case "Prepend":
		return func(text string) string {
			if text == "" {
				return ""
			}
			return n.Prepend + text
		}, nil
	case "Replace":
		return n.replace()
	case "Precompiled":
		c, err := parseCharsmap(n.Charsmap)
		if err != nil {
			return nil, fmt.Errorf("normalizer: precompiled_charsmap: %w", err)
		}
		return c.normalise, nil
	}
	return nil, fmt.Errorf("normalizer: type %q is not supported", n.Type)
}

func (n *normalizer) sequence(depth int) (func(string) string, error) {
	if depth == maxNesting {
		return nil, errors.New("normalizer: sequences are nested too deeply")
	}
	var all []func(string) string
	for _, raw := range n.Normalizers {
		one, err := parseNormalizer(raw, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return func(text string) string {
		for _, one := range all {
			text = cut(one(text))
		}
		return text
	}, nil
}

// The limits of a replacement text and of a whole text. No useful normalizer reaches them.
const (
	maxReplacement = 256
	maxNormalised  = 64 << 10
)

// cut returns a text up to maxNormalised.
func cut(text string) string {
	if len(text) <= maxNormalised {
		return text
	}
	return strings.ToValidUTF8(text[:maxNormalised], "")
}

func (n *normalizer) replace() (func(string) string, error) {
	switch {
	case n.Pattern.String != nil && *n.Pattern.String != "":
		return func(text string) string { return strings.ReplaceAll(text, *n.Pattern.String, n.Content) }, nil
	case n.Pattern.Regex != nil:
		re, err := regexp.Compile(*n.Pattern.Regex)
		if err != nil {
			return nil, fmt.Errorf("normalizer: %w", err)
		}
		return func(text string) string { return re.ReplaceAllLiteralString(text, n.Content) }, nil
	}
	return nil, errors.New("normalizer: Replace has no pattern")
}

// bert normalises as BERT does.
func (n *normalizer) bert(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case n.CleanText && !strings.ContainsRune("\t\n\r", r) && (r == utf8.RuneError || unicode.Is(unicode.C, r)):
		case n.CleanText && unicode.IsSpace(r):
			b.WriteByte(' ')
		case n.Chinese && isChinese(r):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	text = b.String()
	if n.StripAccents == nil && n.Lower || n.StripAccents != nil && *n.StripAccents {
		text = without(norm.NFD.String(text), unicode.Mn)
	}
	if n.Lower {
		text = lower(text)
	}
	return text
}

// without removes the characters of a class from a text.
func without(text string, class *unicode.RangeTable) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(class, r) {
			return -1
		}
		return r
	}, text)
}

// lower maps each character to lower case separately: a sigma at the end of a word does not become a final sigma.
func lower(text string) string {
	return strings.Map(unicode.ToLower, strings.ReplaceAll(text, "İ", "i\u0307"))
}

// chinese are the blocks of characters that BERT takes for words, as ranges with both ends included.
var chinese = [][2]rune{{0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
	{0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F}}

func isChinese(r rune) bool {
	return slices.ContainsFunc(chinese, func(c [2]rune) bool { return c[0] <= r && r <= c[1] })
}

// charsmap replaces texts by others, the longest at each place first. It is SentencePiece's compiled normalisation: the
// size of a trie in bytes, a double-array trie of 32-bit units, and the replacements, each followed by a zero byte.
type charsmap struct {
	units []uint32
	texts string
}

func parseCharsmap(encoded string) (*charsmap, error) {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return &charsmap{}, nil
	}
	if len(raw) < 4 {
		return nil, errors.New("it is too short")
	}
	size := binary.LittleEndian.Uint32(raw)
	if raw = raw[4:]; size%4 != 0 || int64(size) > int64(len(raw)) {
		return nil, fmt.Errorf("its trie has %d bytes, of %d", size, len(raw))
	}
	c := &charsmap{texts: string(raw[size:])}
	for at := uint32(0); at < size; at += 4 {
		c.units = append(c.units, binary.LittleEndian.Uint32(raw[at:]))
	}
	if !utf8.ValidString(c.texts) {
		return nil, errors.New("its replacements are not UTF-8")
	}
	return c, nil
}

func (c *charsmap) normalise(text string) string {
	if len(c.units) == 0 {
		return text
	}
	var b strings.Builder
	for text != "" && b.Len() < maxNormalised {
		replaced, n := c.match(text)
		if n == 0 {
			_, n = utf8.DecodeRuneInString(text)
			replaced = text[:n]
		}
		b.WriteString(replaced)
		text = text[n:]
	}
	return b.String()
}

// match returns the replacement of the longest beginning of a text that has one, and its length, or 0.
func (c *charsmap) match(text string) (replaced string, length int) {
	at := offset(c.units[0])
	for i := range len(text) {
		at ^= uint32(text[i])
		if at >= uint32(len(c.units)) || c.units[at]&(1<<31|0xFF) != uint32(text[i]) || text[i] == 0 {
			return replaced, length
		}
		leaf := c.units[at]>>8&1 == 1
		if at ^= offset(c.units[at]); leaf && at < uint32(len(c.units)) {
			from := c.units[at] & (1<<31 - 1)
			if from < uint32(len(c.texts)) {
				replaced, _, _ = strings.Cut(c.texts[from:], "\x00")
				length = i + 1
			}
		}
	}
	return replaced, length
}

// offset returns how far a unit's children are from it.
func offset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
