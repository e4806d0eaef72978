package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Masked takes the place of a text that a MASK hides.
const Masked = "[redacted]"

// maxMasks is the most MASKs of a plan.
const maxMasks = 256

// How long the text of a MASK may be, in bytes. A shorter one would occur everywhere.
const (
	minMask = 4
	maxMask = 256
)

// fuelPerMasked is what a MASK costs for each record of its range, before texts are searched.
const fuelPerMasked = 64

// checkMask returns what is wrong with the text of a MASK, or "". Texts that JSON escapes are excluded, so that a text is
// written alike inside and outside of arguments.
func checkMask(text string) string {
	switch {
	case len(text) < minMask || len(text) > maxMask:
		return fmt.Sprintf("masks a text of %d bytes; %d to %d are possible", len(text), minMask, maxMask)
	case strings.ContainsFunc(text, func(r rune) bool { return r == '"' || r == '\\' || r < ' ' || r == utf8.RuneError }):
		return "masks a text with a quote, a backslash or a control character"
	}
	return ""
}

// checkMasked returns an error if a plan masks a record that it drops.
func checkMasked(items []Item, ops []Op) error {
	if !slices.ContainsFunc(ops, func(op Op) bool { return op.Code == OpMask }) {
		return nil
	}
	dropped, masks := make([]bool, len(items)), 0
	for i := range ops {
		if op := &ops[i]; op.Code == OpDrop {
			for at := op.First; at <= op.Last; at++ {
				dropped[at] = true
			}
		}
	}
	for n := range ops {
		op := &ops[n]
		if op.Code != OpMask {
			continue
		}
		if masks++; masks > maxMasks {
			return &BadPlanError{n, fmt.Sprintf("is one of more than %d MASKs", maxMasks)}
		}
		if at := slices.Index(dropped[op.First:op.Last+1], true); at >= 0 {
			return &BadPlanError{n, fmt.Sprintf("masks record %d, which the plan drops", int(op.First)+at)}
		}
	}
	return nil
}

// mask carries out all MASKs, in a copy of the items, before the other ops of the plan, which change or remove what they
// left.
func (a *applier) mask(items []Item, ops []Op) ([]Item, error) {
	masks := map[int][]*Op{} // by record
	var rows []int32
	for n := range ops {
		op := &ops[n]
		if op.Code != OpMask {
			continue
		}
		if err := a.meter.Spend(int(op.Last-op.First+1) * fuelPerMasked); err != nil {
			return nil, err
		}
		for at := int(op.First); at <= int(op.Last); at++ {
			if len(masks[at]) == 0 && items[at].Change == Unchanged {
				rows = append(rows, items[at].Row)
			}
			masks[at] = append(masks[at], op)
		}
	}
	if len(masks) == 0 {
		return items, nil
	}
	if err := a.src.Load(rows); err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	for at := range items {
		if len(masks[at]) == 0 {
			continue
		}
		if err := a.maskItem(&items[at], masks[at]); err != nil {
			return nil, err
		}
	}
	return items, a.meter.Spend(0)
}

// maskItem hides texts in one item: in its text, its documents and its arguments. Thinking that has one of them is left
// out, because a provider accepts its own thinking unchanged or not at all.
func (a *applier) maskItem(it *Item, masks []*Op) error {
	hide := &hider{masks: masks}
	text, err := TextOf(it, a.src)
	if err != nil {
		return err
	}
	if err := a.meter.Spend(len(masks) * len(text) / textBytesPerFuel); err != nil {
		return err
	}
	masked := hide.in(text)
	edit := it.Edit
	if it.Change == Unchanged || it.Change == Retexted {
		if edit, err = a.maskParts(it, hide); err != nil {
			return err
		}
	}
	if err := a.meter.Spend((hide.read - len(masks)*len(text)) / textBytesPerFuel); err != nil || hide.found == nil {
		return err
	}
	if err := a.meter.Spend(hide.made * fuelPerMadeByte); err != nil {
		return err
	}
	it.Edit = edit
	if masked == text {
		_, tokens, empty, err := a.src.Edited(it)
		if err == nil && empty {
			masked = Placeholder
		}
		if err != nil {
			return err
		}
		it.Tokens = tokens
	}
	if masked != text {
		if it.Tokens, err = a.src.TokensWith(it, masked); err != nil {
			return err
		}
		it.Text, it.TextBytes, it.CompressedTokens = masked, uint32(len(masked)), 0
		if it.Change == Unchanged {
			it.Change = Retexted
		}
		if it.Role == RoleUser && it.Change == Retexted {
			it.CompressedTokens = a.src.QuestionTokens(it.Turn, masked)
		}
	}
	it.Step, it.Reason = a.step, hide.found.Reason
	a.fate(it, Replace, it.Reason)
	return nil
}

// maskParts returns the edit of an item whose documents, arguments and thinking have none of the texts.
func (a *applier) maskParts(it *Item, hide *hider) (*Edit, error) {
	edit := it.Edit
	documents, err := a.src.DocumentTexts(it)
	if err != nil {
		return nil, err
	}
	if masked := hide.inAll(documents); masked != nil {
		edit = edit.WithDocuments(masked)
	}
	for call := 0; it.Role == RoleAssistant; call++ {
		c, ok, err := CallOf(it, call, a.src)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if masked := hide.inJSON(c.Arguments); masked != c.Arguments {
			edit = edit.with(func(e *Edit) { e.set(Argument{call, masked}) })
			a.argued = true
		}
	}
	thinking, err := a.src.Thinking(it)
	if err != nil {
		return nil, err
	}
	if hide.in(thinking) != thinking {
		edit = edit.with(func(e *Edit) { e.Strip |= PartThinking })
		it.Flags &^= PartThinking.Flags()
	}
	return edit, nil
}

// hider hides the texts of MASKs, and counts what that takes.
type hider struct {
	masks      []*Op
	found      *Op // the last one whose text was found
	read, made int // bytes
}

// in returns a text without the texts of the MASKs. All of them are searched in the text as it is, and what overlaps is
// hidden as one, so that no part of a longer secret is left and no MASK sees what another one wrote.
func (h *hider) in(text string) string {
	var hidden [][2]int
	for _, m := range h.masks {
		h.read += len(text)
		for from := 0; ; {
			at := strings.Index(text[from:], m.Text)
			if at < 0 {
				break
			}
			from += at
			hidden = append(hidden, [2]int{from, from + len(m.Text)})
			from += len(m.Text)
			h.found = m
		}
	}
	if hidden == nil {
		return text
	}
	slices.SortFunc(hidden, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	var out strings.Builder
	shown := 0 // up to where the text is written
	for _, r := range hidden {
		if r[0] >= shown {
			out.WriteString(text[shown:r[0]])
			out.WriteString(Masked)
		}
		shown = max(shown, r[1])
	}
	out.WriteString(text[shown:])
	h.made += out.Len()
	return out.String()
}

// inAll returns texts without those of the MASKs, or nil if none of them has any.
func (h *hider) inAll(texts []string) (masked []string) {
	for i, text := range texts {
		is := h.in(text)
		if is != text && masked == nil {
			masked = slices.Clone(texts)
		}
		if masked != nil {
			masked[i] = is
		}
	}
	return masked
}

// inJSON is in for arguments. If they are JSON, they remain JSON: strings are compared as what they stand for, and another
// value that has one of the texts, such as a number, becomes a string.
func (h *hider) inJSON(arguments string) string {
	if !json.Valid([]byte(arguments)) {
		return h.in(arguments)
	}
	var out bytes.Buffer
	for rest := arguments; rest != ""; {
		n := strings.IndexFunc(rest, isScalar)
		if n < 0 {
			out.WriteString(rest)
			break
		}
		out.WriteString(rest[:n])
		scalar := scalarOf(rest[n:])
		out.WriteString(h.inScalar(scalar))
		rest = rest[n+len(scalar):]
	}
	return out.String()
}

// isScalar reports whether a character of JSON, outside of strings, belongs to a string, a number, true, false or null.
func isScalar(r rune) bool { return !strings.ContainsRune("{}[]:, \t\r\n", r) }

// scalarOf returns the string, number or name at the beginning of valid JSON.
func scalarOf(text string) string {
	if text[0] != '"' {
		if n := strings.IndexFunc(text, func(r rune) bool { return !isScalar(r) }); n >= 0 {
			return text[:n]
		}
		return text
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[:i+1]
		}
	}
	return text
}

func (h *hider) inScalar(scalar string) string {
	value := scalar
	if scalar[0] == '"' {
		if err := json.Unmarshal([]byte(scalar), &value); err != nil {
			return h.in(scalar)
		}
	}
	masked := h.in(value)
	if masked == value {
		return scalar
	}
	raw, err := json.Marshal(masked)
	if err != nil { // impossible for a string
		panic(err)
	}
	return string(raw)
}
