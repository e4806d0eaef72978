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
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// SummaryHead is the part of a session's head that describes its running summary. The summary's text and its count
// change together, because the head names the version of the text.
type SummaryHead struct {
	// Version counts all summaries that the session has had. A reset keeps it and sets Covers to 0.
	Version uint32 `json:"version"`
	// Covers is a message's number: the summary covers every message up to it that is outside delegations; 0 means that
	// there is no summary.
	Covers uint64 `json:"covers"`
	// Count is the number of messages covered.
	Count uint64 `json:"count"`
	// Print is a fingerprint of the text. It detects a store that was restored to an earlier state and then gave the
	// same version to another text.
	Print uint64 `json:"print,omitempty"`
	// Since is the oldest version that a rewind may restore. Older ones were made before a reset.
	Since uint32 `json:"since,omitempty"`
}

// HeadOf returns the SummaryHead of a new summary, as the version that follows before.
func (r *SummaryRecord) HeadOf(before SummaryHead) *SummaryHead {
	sum := sha256.Sum256([]byte(r.Text))
	return &SummaryHead{Version: before.Version + 1, Covers: r.Covers, Count: r.Count,
		Print: binary.LittleEndian.Uint64(sum[:]), Since: before.Since}
}

// Retire schedules the text of a session's summary for removal, once no decision that used it is kept.
func (h *Head) Retire(t *records.Tx, set *project.Setup) {
	until := t.Now.AddDate(0, 0, set.Settings.DecisionRetentionDays+1)
	t.Put(records.Expiry.Key(until, records.Summary.Key(h.Incarnation, h.Summary.Version)), []byte{0})
}

// Within reports whether a summary up to the message covers contains no superseded messages. A rewind takes back
// everything after some turn, so if any covered message is superseded, the last one is.
func Within(covers uint64, x transcript.Extent) bool {
	return covers <= x.Messages && !x.Superseded.Message(covers)
}

// fallBack gives a rewound session the newest version of its summary that covers only living messages, as a new
// version, or none.
func (svc *Service) fallBack(t *records.Tx, set *project.Setup, h *Head) error {
	now, x := h.Covered(), h.Extent()
	if now.Covers == 0 || Within(now.Covers, x) {
		return nil
	}
	h.Retire(t, set)
	rec, _, err := svc.newestWithin(t.Ctx, t.Tenant, now, x)
	if err != nil {
		return err
	}
	h.Summary = &SummaryHead{Version: now.Version, Since: now.Since}
	if rec == nil {
		return nil
	}
	h.Summary = rec.HeadOf(now)
	return t.PutJSON(records.Summary.Key(h.Incarnation, h.Summary.Version), rec)
}

// summariesAtOnce is how many versions of a summary are read together, newest first.
const summariesAtOnce = 8

// newestWithin returns the newest version of a summary that covers only messages that are alive in an extent; nil if
// there is none or it cannot be read. now is the SummaryHead in the session's head.
func (svc *Service) newestWithin(ctx context.Context, tenant string, now SummaryHead, x transcript.Extent) (
	*SummaryRecord, uint32, error) {
	if now.Version == 0 {
		return nil, 0, nil
	}
	versions := store.Range{From: records.Summary.Key(x.Incarnation, now.Since),
		To: records.Summary.Key(x.Incarnation, now.Version+1), Reverse: true, Limit: summariesAtOnce}
	for it, err := range svc.db.Scan(ctx, tenant, versions) {
		if err != nil {
			return nil, 0, err
		}
		rec := new(SummaryRecord)
		if !it.Damaged && json.Unmarshal(it.Value, rec) == nil && Within(rec.Covers, x) {
			_, version, _ := records.Summary.Split(it.Key)
			return rec, version, nil
		}
	}
	return nil, 0, nil
}

// SummaryWithin returns the newest version of a session's summary that covers only messages that are alive in an
// extent; nil if there is none.
func (svc *Service) SummaryWithin(ctx context.Context, tenant string, h *Head, x transcript.Extent) (*Summary, error) {
	if h.Covered().Covers == 0 {
		return nil, nil
	}
	rec, version, err := svc.newestWithin(ctx, tenant, h.Covered(), x)
	if err != nil || rec == nil {
		return nil, err
	}
	return rec.prepare(version), nil
}

// prepare prepares a version of a session's summary for windows.
func (r *SummaryRecord) prepare(version uint32) *Summary {
	return &Summary{SummaryRecord: r, Version: version, Notice: fmt.Sprintf(
		"Summary of the conversation so far (turns %d to %d):\n%s", r.FirstTurn, r.LastTurn, r.Text)}
}

// Covered returns the head's SummaryHead; the zero value if there is none.
func (h *Head) Covered() SummaryHead {
	if h.Summary == nil {
		return SummaryHead{}
	}
	return *h.Summary
}

// SummaryRecord is one version of a session's running summary. It is immutable.
type SummaryRecord struct {
	Text      string    `json:"text"`
	FirstTurn uint32    `json:"first_turn"` // of the messages covered
	LastTurn  uint32    `json:"last_turn"`
	Covers    uint64    `json:"covers"` // as in SummaryHead
	Count     uint64    `json:"count"`
	Folded    uint32    `json:"folded"` // the version that it extends; 0 means none
	Model     string    `json:"model"`  // that wrote it
	Prompt    string    `json:"prompt"` // name of the prompt
	Created   time.Time `json:"created_at"`
}

// Summary is a stored summary, prepared for windows.
type Summary struct {
	*SummaryRecord
	Version uint32
	Notice  string // the text that windows show
	// Tokens are the notice's tokens plus one, as a message and as flat text, by encoding; 0 means not counted yet.
	Tokens [2][2]atomic.Int64
}

// SummaryOf is a session in the form that clients see, and its head.
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

// ReadSummary returns a version of a session's summary, or nil if it cannot be read. A window is then built without it.
func (svc *Service) ReadSummary(ctx context.Context, tenant string, sinc ident.Incarnation, version uint32) (
	*Summary, error) {
	it, err := svc.db.ReadItem(ctx, tenant, records.Summary.Key(sinc, version))
	if err != nil {
		return nil, err
	}
	return svc.ParseSummary(tenant, sinc, version, it), nil
}

// ParseSummary decodes the record of a version of a session's summary. It returns nil if the record cannot be read.
func (svc *Service) ParseSummary(tenant string, sinc ident.Incarnation, version uint32, it store.Item) *Summary {
	r := new(SummaryRecord)
	if it.Damaged || it.Value == nil || json.Unmarshal(it.Value, r) != nil {
		svc.db.Log.Error("a session's summary is damaged or missing; windows go without it", "tenant", tenant,
			"session", sinc.String(), "version", version)
		return nil
	}
	return r.prepare(version)
}

// FileSummary is a session's running summary in a file. An import makes it the session's first version.
type FileSummary struct {
	Text  string    `json:"text"`
	Turns [2]uint32 `json:"covers_turns"` // the first and the last
	// Covers is how many of the file's first messages the summary was made from. Count is how many of those it covers:
	// all outside delegations.
	Covers uint64 `json:"covers"`
	Count  uint64 `json:"covers_messages"`
	Model  string `json:"model,omitempty"`
	Prompt string `json:"prompt,omitempty"`
}

// fileSummary returns a session's summary in the form of a file; nil if there is none or it cannot be read.
func (svc *Service) fileSummary(ctx context.Context, tenant string, h *Head) (*FileSummary, error) {
	if h.Covered().Covers == 0 {
		return nil, nil
	}
	s, err := svc.ReadSummary(ctx, tenant, h.Incarnation, h.Covered().Version)
	if err != nil || s == nil {
		return nil, err
	}
	f := s.file()
	f.Covers -= h.Absent.Messages(f.Covers)
	return f, nil
}

// file returns a summary in the form that a new session takes; nil if there is none.
func (s *Summary) file() *FileSummary {
	if s == nil {
		return nil
	}
	return &FileSummary{Text: s.Text, Turns: [2]uint32{s.FirstTurn, s.LastTurn}, Covers: s.Covers, Count: s.Count,
		Model: s.Model, Prompt: s.Prompt}
}

// put collects the write that makes the summary the first one of a new session.
func (f *FileSummary) put(t *records.Tx, h *Head) error {
	if f == nil {
		return nil
	}
	rec := SummaryRecord{Text: f.Text, FirstTurn: f.Turns[0], LastTurn: f.Turns[1], Covers: f.Covers, Count: f.Count,
		Model: f.Model, Prompt: f.Prompt, Created: t.Now}
	h.Summary = rec.HeadOf(SummaryHead{})
	return t.PutJSON(records.Summary.Key(h.Incarnation, 1), rec)
}

// MaxSummaryText is the maximum length of a summary's text, in bytes. A longer text is refused as a summary.
const MaxSummaryText = 64 << 10

// covering counts what a file's summary may cover of the turns seen so far.
type covering struct {
	messages  uint64
	countable uint64 // those in the summarised part that are outside delegations
}

func (c *covering) add(f *FileSummary, t *transcript.Turn) {
	for i := range t.Messages {
		c.messages++
		if f != nil && c.messages <= f.Covers && t.Messages[i].Delegation == "" && !t.Superseded {
			c.countable++
		}
	}
}

// within checks a file's summary, if any, against all of the file's turns.
func (f *FileSummary) within(c covering, h *transcript.History) error {
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
	case h.Superseded.Message(f.Covers):
		return fault.InvalidField("summary.covers", "out_of_range", "must not end with a message that is superseded")
	case f.Count < 1 || f.Count > c.countable:
		return fault.InvalidField("summary.covers_messages", "out_of_range",
			"must be from 1 to %d, the messages behind the summary that belong to no delegation", c.countable)
	case f.Turns[0] < 1 || f.Turns[1] < f.Turns[0] || f.Turns[1] > h.Turns:
		return fault.InvalidField("summary.covers_turns", "out_of_range", "must be the first and the last turn covered")
	}
	return nil
}
