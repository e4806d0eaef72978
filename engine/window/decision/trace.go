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

// Series names the windows that are compared with one another: those of a session, for one viewer, in one format.
type Series [16]byte

// NewSeries names a series.
func NewSeries(session string, viewer ident.Viewer, format string) Series {
	delegation := ""
	if viewer.DelegationID != nil {
		delegation = *viewer.DelegationID
	}
	sum := sha256.Sum256([]byte(session + "\x00" + viewer.Agent + "\x00" + delegation + "\x00" + format))
	return Series(sum[:16])
}

// TraceKeys are where the trace of the newest window of the series may lie, the newest first. Traces lie at the day of
// their decision and go with it. One of the day before yesterday is not looked for, because by then no provider remembers
// the prompt.
func (s Series) TraceKeys(pinc ident.Incarnation, now time.Time) [][]byte {
	day := records.Day(now)
	return [][]byte{records.Trace.Key(pinc, day, s), records.Trace.Key(pinc, day-1, s)}
}

// ParseTrace finds the trace of the newest window of a session among what lies at TraceKeys. Its Trace is nil where there
// is none, or where it is of a session of the same name that is gone.
func ParseTrace(items []store.Item, sinc ident.Incarnation) *Traced {
	for _, it := range items {
		if it.Damaged {
			continue
		}
		// Windows that were made before the session was have no incarnation.
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

// Decided is what a decision of a project says to turns that name it; nil where there is none, or none any more.
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

// Traced is the trace of a window, to be kept with its decision. It is zero for a window that is never the one before.
type Traced struct {
	Series
	Session ident.Incarnation
	*prefix.Trace
	Reminder *reminder.Bound // what it showed before the newest user message; nil: nothing
}

func (t *Traced) pair(pinc ident.Incarnation, day uint16) store.Pair {
	value := append(slices.Clone(t.Session[:]), 0)
	if t.Reminder != nil {
		value[len(t.Session)] = 1
		value = t.Reminder.Append(value)
	}
	return store.Pair{Key: records.Trace.Key(pinc, day, t.Series), Value: t.Append(value)}
}

// trace is checked as bytes: traces are loose, and nothing misses one.
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

// Forget puts null in place of a response's decision id.
func Forget(response []byte) {
	at := len(`{"decision_id":`)
	n := copy(response[at:], "null")
	for i := at + n; response[i] != ','; i++ {
		response[i] = ' '
	}
}
