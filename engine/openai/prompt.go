package openai

import (
	_ "embed"
	"encoding/json"
	"errors"
	"strings"
	"text/template"

	"github.com/seed-0906e6bc/mneme/engine/window/summary"
)

// promptFile has the whole prompt. Its first line is its version, which is part of a summary's identity, so a change of
// the text is a new version.
//
//go:embed prompt.txt
var promptFile string

// prompt is the instruction to the model.
type prompt struct {
	version string
	texts   *template.Template
}

func readPrompt(file string) (prompt, error) {
	version, rest, ok := strings.Cut(file, "\n")
	if !ok || version == "" {
		return prompt{}, errors.New("the prompt says no version")
	}
	texts, err := template.New("prompt").Parse(rest)
	return prompt{version, texts}, err
}

// summaryLine is the first line of the data: the running summary, or null if there is none yet. Each line is JSON, so
// that no text can end its line.
type summaryLine struct {
	Summary *string `json:"running_summary"`
}

// messageLine is one message on its own line.
type messageLine struct {
	Turn    uint32 `json:"turn"`
	Speaker string `json:"speaker"`
	Text    string `json:"text"`
}

// write returns the two messages of one call: system contains the instructions, data the texts.
func (p prompt) write(r summary.Request, maxTokens int) (system, data string, err error) {
	// Half as many words as tokens: most languages need more tokens per word than English.
	values := struct {
		Words int
		Lines []string
	}{Words: max(maxTokens/2, 1)}
	var previous summaryLine
	if r.Previous != "" {
		previous.Summary = &r.Previous
	}
	lines := []any{previous}
	for _, m := range r.Messages {
		lines = append(lines, messageLine(m))
	}
	for _, line := range lines {
		s, err := jsonLine(line)
		if err != nil {
			return "", "", err
		}
		values.Lines = append(values.Lines, s)
	}
	var out [2]strings.Builder
	for i, name := range []string{"system", "data"} {
		if err := p.texts.ExecuteTemplate(&out[i], name, values); err != nil {
			return "", "", err
		}
	}
	return strings.TrimSpace(out[0].String()), strings.TrimSpace(out[1].String()), nil
}

// jsonLine returns a value as JSON on one line. It does not escape < and >, which would only cost tokens.
func jsonLine(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}
