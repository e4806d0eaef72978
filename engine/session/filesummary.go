package session

import (
	"context"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// FileSummary is a session's running summary as a file keeps it. Whoever imports it makes it the session's first.
type FileSummary struct {
	Text  string    `json:"text"`
	Turns [2]uint32 `json:"covers_turns"` // the first and the last
	// Covers is how many of the file's first messages are behind the summary; Count those of them that it covers: all
	// but delegations'.
	Covers uint64 `json:"covers"`
	Count  uint64 `json:"covers_messages"`
	Model  string `json:"model,omitempty"`
	Prompt string `json:"prompt,omitempty"`
}

// fileSummary is a session's summary as its file keeps it; nil where there is none, or none that can be read.
func (svc *Service) fileSummary(ctx context.Context, tenant string, h *Head) (*FileSummary, error) {
	if h.Covered().Covers == 0 {
		return nil, nil
	}
	s, err := svc.ReadSummary(ctx, tenant, h.Incarnation, h.Covered().Version)
	if err != nil || s == nil {
		return nil, err
	}
	return &FileSummary{Text: s.Text, Turns: [2]uint32{s.FirstTurn, s.LastTurn}, Covers: s.Covers, Count: s.Count,
		Model: s.Model, Prompt: s.Prompt}, nil
}

// put collects the write of the summary as the first of a session that is being made.
func (f *FileSummary) put(t *records.Tx, h *Head) error {
	if f == nil {
		return nil
	}
	h.Summary = &SummaryHead{Version: 1, Covers: f.Covers, Count: f.Count}
	return t.PutJSON(records.Summary.Key(h.Incarnation, 1), SummaryRecord{Text: f.Text, FirstTurn: f.Turns[0],
		LastTurn: f.Turns[1], Covers: f.Covers, Count: f.Count, Model: f.Model, Prompt: f.Prompt, Created: t.Now})
}

// MaxSummaryText bounds a summary's text, in bytes: what is longer is no summary.
const MaxSummaryText = 64 << 10

// covering is what a file's summary may cover of the turns seen so far.
type covering struct {
	turns     uint32
	messages  uint64
	countable uint64 // those behind the summary that belong to no delegation
}

func (c *covering) add(f *FileSummary, t *transcript.Turn) {
	c.turns++
	for i := range t.Messages {
		if c.messages++; f != nil && c.messages <= f.Covers && t.Messages[i].Delegation == "" {
			c.countable++
		}
	}
}

// within holds a file's summary, if it has one, against all of the file's turns.
func (f *FileSummary) within(c covering) error {
	switch {
	case f == nil:
		return nil
	case strings.TrimSpace(f.Text) == "" || len(f.Text) > MaxSummaryText:
		return fault.InvalidField("summary.text", "invalid_value", "must have from 1 to %d bytes", MaxSummaryText)
	case len(f.Model) > 256 || len(f.Prompt) > 256:
		return fault.InvalidField("summary.model", "too_long", "model and prompt must be at most 256 bytes")
	case f.Covers < 1 || f.Covers > c.messages:
		return fault.InvalidField("summary.covers", "out_of_range", "must be from 1 to %d, the file's messages", c.messages)
	case f.Count < 1 || f.Count > c.countable:
		return fault.InvalidField("summary.covers_messages", "out_of_range",
			"must be from 1 to %d, the messages behind the summary that belong to no delegation", c.countable)
	case f.Turns[0] < 1 || f.Turns[1] < f.Turns[0] || f.Turns[1] > c.turns:
		return fault.InvalidField("summary.covers_turns", "out_of_range", "must be the first and the last turn covered")
	}
	return nil
}
