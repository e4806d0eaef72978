package decision

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/prompt"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// Series identifies a sequence of windows that are compared with each other: those of a session, viewer and format.
type Series [16]byte

// NewSeries returns the identifier of a series.
func NewSeries(session string, viewer ident.Viewer, format string) Series {
	delegation := ""
	if viewer.DelegationID != nil {
		delegation = *viewer.DelegationID
	}
	sum := sha256.Sum256([]byte(session + "\x00" + viewer.Agent + "\x00" + delegation + "\x00" + format))
	return Series(sum[:16])
}

// TraceKeys returns the possible keys of the trace of the newest window of the series: those of today and yesterday.
// Traces are stored and deleted with the decisions of their day. Older traces are useless, because no provider caches a
// prompt for so long.
func (s Series) TraceKeys(pinc ident.Incarnation, now time.Time) [][]byte {
	day := records.Day(now)
	return [][]byte{records.Trace.Key(pinc, day, s), records.Trace.Key(pinc, day-1, s)}
}

// ParseTrace returns the trace of the newest window of a session from the records of TraceKeys. Its Trace is nil if
// there is none, or if it is of a deleted session with the same name.
func ParseTrace(items []store.Item, sinc ident.Incarnation) *Traced {
	for _, it := range items {
		if it.Damaged {
			continue
		}
		// Windows that were made before the session existed have no incarnation.
		t, err := parseTraced(it.Value)
		if err == nil && (t.Session == sinc || t.Session == ident.Incarnation{}) {
			return t
		}
	}
	return new(Traced)
}

func parseTraced(b []byte) (t *Traced, err error) {
	t = new(Traced)
	if len(b) < len(t.Session)+1 {
		return nil, fmt.Errorf("a trace of %d bytes", len(b))
	}
	t.Session = ident.Incarnation(b)
	reminds, b := b[len(t.Session)] != 0, b[len(t.Session)+1:]
	if reminds {
		if t.Reminder, b, err = reminder.ParseBound(b); err != nil {
			return nil, err
		}
	}
	t.Trace, err = prefix.ParseTrace(b)
	return t, err
}

// Decided returns what turns that name a decision take from it, or nil if there is no such decision.
func (svc *Service) Decided(ctx context.Context, c ident.Caller, projectID, name string) (*transcript.Kept, error) {
	d, err := svc.find(ctx, c, projectID, name)
	if known, ok := errors.AsType[*fault.Error](err); ok && (known.Code == "not_found" || known.Kind == fault.Gone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var asked struct {
		Format  string            `json:"format"`
		Pending []json.RawMessage `json:"pending"`
	}
	if err := json.Unmarshal(d.Request, &asked); err != nil {
		return nil, fmt.Errorf("%w: a decision's request", records.ErrDamaged)
	}
	format, _ := render.ParseFormat(cmp.Or(asked.Format, render.OpenAIChat.String()))
	kept := &transcript.Kept{Session: d.Session, Kept: prompt.Kept{Format: format, Pending: asked.Pending, End: d.Prompt.End,
		Made: d.Prompt.Made}}
	if d.Reminder != nil {
		kept.Reminder, kept.At = &d.Reminder.Bound, d.Reminder.Pending
	}
	return kept, nil
}

// Traced is the trace of a window, which is stored with its decision. It is zero for windows that later windows are not
// compared with.
type Traced struct {
	Series
	Session ident.Incarnation
	*prefix.Trace
	Reminder *reminder.Bound // the reminder before the newest user message, or nil
}

func (t *Traced) pair(pinc ident.Incarnation, day uint16) store.Pair {
	value := append(slices.Clone(t.Session[:]), 0)
	if t.Reminder != nil {
		value[len(t.Session)] = 1
		value = t.Reminder.Append(value)
	}
	return store.Pair{Key: records.Trace.Key(pinc, day, t.Series), Value: t.Append(value)}
}

// trace checks only the encoding, because traces are loose records and no other record needs them.
func (c *checks) trace(s *verify.Space, it store.Item) {
	pinc, _, _, ok := records.Trace.Split(it.Key)
	s.About(pinc, "")
	switch {
	case !ok || it.Damaged:
	case !s.Belongs(pinc):
		s.Orphan("the trace's project does not exist").Harmless = true
	default:
		if _, err := parseTraced(it.Value); err != nil {
			s.Malformed("%v", err)
		}
	}
}

// Forget replaces a response's decision id by null.
func Forget(response []byte) {
	at := len(`{"decision_id":`)
	n := copy(response[at:], "null")
	for i := at + n; response[i] != ','; i++ {
		response[i] = ' '
	}
}
