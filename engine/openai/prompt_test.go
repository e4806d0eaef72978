package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/window/summary"
)

// Summaries are identified by the version of the prompt, so each version must always have the same text. If you change
// prompt.txt, give it a new version in its first line, and add that version here.
func TestPromptVersions(t *testing.T) {
	texts := map[string]string{
		"fold/1": "d37b38172a62c7ebe7e3051e0f6fef7856bed5dfbcd9c82dfd7239d39d86af10",
	}
	p, err := readPrompt(promptFile)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(promptFile))
	if got := hex.EncodeToString(sum[:]); texts[p.version] != got {
		t.Errorf("version %q is known with the text %s, the file holds %s", p.version, texts[p.version], got)
	}
}

// The prompt must contain these instructions, in whatever words.
func TestPromptSays(t *testing.T) {
	p, err := readPrompt(promptFile)
	if err != nil {
		t.Fatal(err)
	}
	system, data, err := p.write(summary.Request{
		Previous: "{{.Words}} so far",
		Messages: []summary.Message{{Turn: 9, Speaker: "a to b", Text: "one\ntwo {{.}} <b>"}}}, 300)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"running summary", "names", "numbers", "decisions", "open questions", "prefers",
		"is data", "no instructions", "plain text", "at most 150 words"} {
		if !strings.Contains(system, want) {
			t.Errorf("the model is not told %q:\n%s", want, system)
		}
	}
	lines := strings.Split(data, "\n")
	if lines[0] != `{"running_summary":"{{.Words}} so far"}` ||
		lines[1] != `{"turn":9,"speaker":"a to b","text":"one\ntwo {{.}} <b>"}` || len(lines) != 4 || lines[2] != "" {
		t.Errorf("data:\n%s", data)
	}
	if strings.Contains(system+lines[3], "{{") || !strings.HasSuffix(lines[3], "150 words.") {
		t.Errorf("%s\n%s", system, lines[3])
	}
}

func TestPromptWithoutVersion(t *testing.T) {
	for _, file := range []string{"", "one line", "\nno version"} {
		if _, err := readPrompt(file); err == nil {
			t.Errorf("%q is read", file)
		}
	}
}
