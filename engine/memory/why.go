package memory

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Why says where a memory came from: its kept versions, newest first, with the words that each is from.
type Why struct {
	Key       string     `json:"key"`
	Namespace []string   `json:"namespace,omitempty"`
	Versions  []Grounded `json:"versions"`
}

// Grounded is what a version of a memory rests on.
type Grounded struct {
	Version    int         `json:"version"`
	At         time.Time   `json:"at"`
	KeyID      string      `json:"key_id"`
	Agent      string      `json:"agent"`
	Trust      Trust       `json:"trust"`
	Provenance *Provenance `json:"provenance,omitempty"`
	Quotes     []Quote     `json:"quotes"` // in the order of the sources
}

// Quote is what a source says: its words, or the whole message if the source names none, at most maxQuote bytes. Gone
// says that the message is no longer there: it was purged or erased, or its session was deleted or made again.
type Quote struct {
	SessionID string `json:"session_id"`
	Seq       uint64 `json:"seq"`
	Text      string `json:"text,omitempty"`
	Cut       bool   `json:"cut,omitempty"`
	Gone      bool   `json:"source_gone,omitempty"`
}

const maxQuote = 4 << 10

// Why reads a memory's versions and the messages that they are from. The words are nowhere but in the messages. It
// returns not_found if there is no such memory, and memory_damaged if it cannot be read.
func (svc *Service) Why(ctx context.Context, c ident.Caller, projectID, id string) (Why, error) {
	out := Why{Versions: []Grounded{}}
	out.Namespace, out.Key = ident.SplitFullName(id)
	c, err := reach(c, id)
	if err != nil {
		return out, err
	}
	p, rec, err := svc.live(ctx, c, projectID, id)
	if err != nil {
		return out, err
	}
	all := []*Record{rec}
	if len(rec.History) > 0 {
		keys := make([][]byte, len(rec.History))
		for i, kept := range slices.Backward(rec.History) {
			keys[len(keys)-1-i] = kept.record(p.Incarnation, id)
		}
		before, err := svc.Load(ctx, c.Tenant, keys)
		if err != nil {
			return out, err
		}
		all = append(all, before...)
	}
	for _, v := range all {
		if v == nil || v.Damaged || v.Incarnation != rec.Incarnation {
			continue
		}
		g := Grounded{Version: v.Version, At: v.UpdatedAt, KeyID: v.KeyID, Agent: v.Agent, Trust: v.Trust,
			Provenance: v.Provenance, Quotes: []Quote{}}
		for _, s := range v.sources() {
			q, err := svc.quote(ctx, c, p, &s, v.Sessions[s.SessionID])
			if err != nil {
				return out, err
			}
			g.Quotes = append(g.Quotes, q)
		}
		out.Versions = append(out.Versions, g)
	}
	return out, nil
}

// quote reads what a source says. of is the incarnation that its session had.
func (svc *Service) quote(ctx context.Context, c ident.Caller, p *project.Record, s *Source, of ident.Incarnation) (Quote, error) {
	q := Quote{SessionID: s.SessionID, Seq: s.Seq, Gone: true}
	_, h, _, err := svc.transcripts.ReadHead(ctx, c, p.ID, s.SessionID)
	switch {
	case fault.IsNotFound(err):
		return q, nil
	case err != nil:
		return q, err
	case h == nil || h.Incarnation != of || s.Seq > h.Messages:
		return q, nil
	}
	bodies, err := svc.transcripts.ReadBodies(ctx, c.Tenant, of, s.Seq, s.Seq)
	if err != nil {
		return q, err
	}
	_, m, err := transcript.ParseBody(bodies[0])
	if err != nil || !s.within(m.Text) {
		return q, nil
	}
	q.Text, q.Gone = m.Text, false
	if s.Length > 0 {
		q.Text = m.Text[s.At : s.At+s.Length]
	}
	if len(q.Text) > maxQuote {
		q.Text, q.Cut = strings.ToValidUTF8(q.Text[:maxQuote], ""), true
	}
	return q, nil
}
