package session

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
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
	Notice  string             // its text as a window shows it
	Tokens  [2][2]atomic.Int64 // of the notice, as a message and as flat text, by encoding, plus one; 0: not counted yet
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
