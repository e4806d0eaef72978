package session

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// SummaryHead says, in a session's head, what its running summary covers: text and count change together, because the
// head names the text's version.
type SummaryHead struct {
	// Version counts the summaries that the session ever had. After a reset it stays, with Covers 0.
	Version uint32 `json:"version"`
	// Covers is a message's number: every message of no delegation up to it is covered; 0: there is no summary.
	Covers uint64 `json:"covers"`
	// Count is how many messages that is.
	Count uint64 `json:"count"`
	// Print is a fingerprint of the text: a store that went back gives a version's number to another text.
	Print uint64 `json:"print,omitempty"`
}

// HeadOf is what a head says of a summary that it is to have.
func (r *SummaryRecord) HeadOf(version uint32) *SummaryHead {
	sum := sha256.Sum256([]byte(r.Text))
	return &SummaryHead{Version: version, Covers: r.Covers, Count: r.Count, Print: binary.LittleEndian.Uint64(sum[:])}
}

// Covered is what a head says of its summary; the zero value where there is none.
func (h *Head) Covered() SummaryHead {
	if h.Summary == nil {
		return SummaryHead{}
	}
	return *h.Summary
}

// SummaryRecord is one version of a session's running summary, immutable.
type SummaryRecord struct {
	Text      string    `json:"text"`
	FirstTurn uint32    `json:"first_turn"` // of the messages covered
	LastTurn  uint32    `json:"last_turn"`
	Covers    uint64    `json:"covers"` // as in SummaryHead
	Count     uint64    `json:"count"`
	Folded    uint32    `json:"folded"` // the version that it goes on from; 0: none
	Model     string    `json:"model"`  // that made it
	Prompt    string    `json:"prompt"` // that it was asked with, by name
	Created   time.Time `json:"created_at"`
}

// Summary is a stored summary made ready to be shown.
type Summary struct {
	*SummaryRecord
	Version uint32
	Notice  string // its text as a window shows it
	// Tokens are the notice's, as a message and as flat text, by encoding, plus one; 0: not counted yet.
	Tokens [2][2]atomic.Int64
}

// SummaryOf is a session as shown, and its head.
type SummaryOf struct {
	Session *Session
	Head    *Head
}

// ShowSummaries fills in the texts of sessions' summaries.
func (svc *Service) ShowSummaries(ctx context.Context, tenant string, shown []SummaryOf) error {
	var keys [][]byte
	var with []SummaryOf
	for _, s := range shown {
		if sum := s.Head.Covered(); sum.Covers > 0 {
			keys, with = append(keys, records.Summary.Key(s.Head.Incarnation, sum.Version)), append(with, s)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: keys})
	if err != nil {
		return err
	}
	for i, s := range with {
		if sum := svc.ParseSummary(tenant, s.Head.Incarnation, s.Head.Covered().Version, r.Keys[i]); sum != nil {
			s.Session.Summary = &sum.Text
		}
	}
	return nil
}

// ReadSummary gives a version of a session's summary, or nil where it cannot be read: the window then goes without it,
// and nothing is lost.
func (svc *Service) ReadSummary(ctx context.Context, tenant string, sinc ident.Incarnation, version uint32) (
	*Summary, error) {
	it, err := svc.db.ReadItem(ctx, tenant, records.Summary.Key(sinc, version))
	if err != nil {
		return nil, err
	}
	return svc.ParseSummary(tenant, sinc, version, it), nil
}

// ParseSummary makes a version of a session's summary out of its record, or nil where that cannot be read.
func (svc *Service) ParseSummary(tenant string, sinc ident.Incarnation, version uint32, it store.Item) *Summary {
	r := new(SummaryRecord)
	if it.Damaged || it.Value == nil || json.Unmarshal(it.Value, r) != nil {
		svc.db.Log.Error("a session's summary is damaged or missing; windows go without it", "tenant", tenant,
			"session", sinc.String(), "version", version)
		return nil
	}
	return &Summary{SummaryRecord: r, Version: version, Notice: fmt.Sprintf(
		"Summary of the conversation so far (turns %d to %d):\n%s", r.FirstTurn, r.LastTurn, r.Text)}
}

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
	rec := SummaryRecord{Text: f.Text, FirstTurn: f.Turns[0], LastTurn: f.Turns[1], Covers: f.Covers, Count: f.Count,
		Model: f.Model, Prompt: f.Prompt, Created: t.Now}
	h.Summary = rec.HeadOf(1)
	return t.PutJSON(records.Summary.Key(h.Incarnation, 1), rec)
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
		return fault.InvalidField("summary.covers", "out_of_range", "must be from 1 to %d, the file's messages",
			c.messages)
	case f.Count < 1 || f.Count > c.countable:
		return fault.InvalidField("summary.covers_messages", "out_of_range",
			"must be from 1 to %d, the messages behind the summary that belong to no delegation", c.countable)
	case f.Turns[0] < 1 || f.Turns[1] < f.Turns[0] || f.Turns[1] > c.turns:
		return fault.InvalidField("summary.covers_turns", "out_of_range", "must be the first and the last turn covered")
	}
	return nil
}
