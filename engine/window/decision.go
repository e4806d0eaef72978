package window

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// decisionID names a decision by where it lies: its day, its session's incarnation, and a number that no other has. It
// begins with the time in microseconds, so that decisions are written where the last ones were, and ends at random.
type decisionID struct {
	day     uint16
	session ident.Incarnation
	unique  [14]byte
}

const decisionPrefixID = "dec_"

// newDecisionID names the decision that an assembly is about to make.
func (svc *Service) newDecisionID(a *assembly, sessionID string) decisionID {
	id := decisionID{day: records.Day(records.TimeOf(a.at)), session: a.extent.Incarnation}
	if id.session == (ident.Incarnation{}) {
		id.session = session.Unborn(sessionID)
	}
	binary.BigEndian.PutUint64(id.unique[:8], uint64(svc.db.Clock().UnixMicro()))
	svc.db.Random(id.unique[8:])
	return id
}

func (d decisionID) String() string {
	b := binary.BigEndian.AppendUint16(make([]byte, 0, 24), d.day)
	b = append(append(b, d.session[:]...), d.unique[:]...)
	return decisionPrefixID + ident.Alphabet.EncodeToString(b)
}

func parseDecisionID(s string) (d decisionID, ok bool) {
	rest, ok := strings.CutPrefix(s, decisionPrefixID)
	b, err := ident.Alphabet.DecodeString(rest)
	if !ok || err != nil || len(b) != 24 || ident.Alphabet.EncodeToString(b) != rest {
		return d, false
	}
	return decisionID{binary.BigEndian.Uint16(b), ident.Incarnation(b[2:10]), [14]byte(b[10:])}, true
}

func decisionKey(p ident.Incarnation, id decisionID) []byte {
	return records.Decision.Key(p, id.day, id.session, id.unique)
}

// decisionDay reads the day out of a decision's key.
func decisionDay(key []byte) uint16 { return binary.BigEndian.Uint16(key[2+8:]) }

// decisionMade reads out of a decision's key when it was made.
func decisionMade(key []byte) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(key[2+8+2+8:])))
}

// decision identifies one window: all inputs, how each step ended, and the hash of the result. The report follows from
// these and is not kept.
type decision struct {
	At        int64           `json:"at"` // ms since 1970
	Seed      string          `json:"seed"`
	Session   string          `json:"session"`
	Extent    decisionExtent  `json:"extent"`
	Tight     bool            `json:"tight,omitempty"`
	Bare      bool            `json:"bare,omitempty"`
	Summary   uint32          `json:"summary,omitempty"` // the version that was there; 0: none
	Memories  []remembered    `json:"memories,omitempty"`
	Revision  uint64          `json:"revision"`
	Window    string          `json:"window"`
	Usage     json.RawMessage `json:"usage"`
	Effective string          `json:"effective"` // hash of the settings and the pinned pipeline
	Steps     []stepOutcome   `json:"steps"`
	Request   json.RawMessage `json:"request"`
}

type decisionExtent struct {
	Incarnation ident.Incarnation `json:"incarnation"`
	Turns       uint32            `json:"turns"`
	Messages    uint64            `json:"messages"`
}

// purged is the value of a decision whose session was deleted. It says so until the decision's retention ends, and
// nothing of the decision itself is left.
const purged = "purged"

// keepDecision writes the record of a window before it is answered.
func (svc *Service) keepDecision(ctx context.Context, tenant string, p *project.Record, a *assembly, id decisionID,
	session string, revision uint64, raw []byte, w *chat.Window) error {
	if err := svc.keepEffective(ctx, tenant, p.Incarnation, id.day, a.Ready); err != nil {
		return err
	}
	b := make([]byte, 0, 1024+len(raw))
	b = strconv.AppendInt(append(b, `{"at":`...), a.at, 10)
	b = append(strconv.AppendUint(append(b, `,"seed":"`...), a.seed, 10), `","session":"`...)
	b = append(append(b, session...), `","extent":{"incarnation":"`...)
	b = append(hex.AppendEncode(b, a.extent.Incarnation[:]), `","turns":`...)
	b = strconv.AppendUint(b, uint64(a.extent.Turns), 10)
	b = strconv.AppendUint(append(b, `,"messages":`...), a.extent.Messages, 10)
	b = strconv.AppendBool(append(b, `},"bare":`...), a.bare)
	b = strconv.AppendBool(append(b, `,"tight":`...), a.tight)
	if a.summary != nil {
		b = strconv.AppendUint(append(b, `,"summary":`...), uint64(a.summary.Version), 10)
	}
	if len(a.memories) > 0 {
		names, err := json.Marshal(a.memories)
		if err != nil {
			return err
		}
		b = append(append(b, `,"memories":`...), names...)
	}
	b = strconv.AppendUint(append(b, `,"revision":`...), revision, 10)
	b = append(hex.AppendEncode(append(b, `,"window":"`...), a.result.hash), `","usage":`...)
	b = a.appendUsage(b, w)
	b = append(hex.AppendEncode(append(b, `,"effective":"`...), a.Hash[:]), '"')
	b = a.appendSteps(append(b, `,"steps":`...))
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	b = append(append(b, `,"request":`...), raw...)
	b = append(b, '}')
	key := decisionKey(p.Incarnation, id)
	return svc.db.Commit(ctx, tenant, store.Batch{Expect: []store.Expect{{Key: key}}, Put: []store.Pair{{Key: key, Value: b}}})
}

// secondKeep is when what decisions share is written again. A database that crashed beneath this process may have lost
// one of the two writes, because they are not synced, but not both.
const secondKeep = 10 * time.Second

// writtenToday remembers what decisions of a day share and this process has written, so that it need not write it
// again. The zero value is ready.
type writtenToday struct {
	mu   sync.Mutex
	keys map[string]time.Time // when the key is to be written once more; zero: never
}

func (w *writtenToday) has(key string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	again, ok := w.keys[key]
	return ok && (again.IsZero() || now.Before(again))
}

// add notes that a key was written. After the first time, has says no again from a time on, so that it is written
// twice.
func (w *writtenToday) add(key string, again time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys == nil || len(w.keys) >= records.MemoSize {
		w.keys = map[string]time.Time{}
	}
	if _, ok := w.keys[key]; ok {
		again = time.Time{}
	}
	w.keys[key] = again
}

// keepEffective writes the settings and pinned pipeline that decisions of a day share, twice.
func (svc *Service) keepEffective(ctx context.Context, tenant string, pinc ident.Incarnation, day uint16, r *policy.Ready) error {
	key := records.Effective.Key(pinc, day, r.Hash)
	name := tenant + string(key)
	if svc.writtenToday.has(name, svc.db.Now()) {
		return nil
	}
	err := svc.db.Commit(ctx, tenant, store.Batch{Put: []store.Pair{{Key: key, Value: r.Record}}})
	if err == nil {
		svc.writtenToday.add(name, svc.db.Now().Add(secondKeep))
	}
	return err
}

// readEffective finds what a decision names by hash.
func (svc *Service) readEffective(ctx context.Context, tenant string, pinc ident.Incarnation, d *decision) (*policy.Effective, error) {
	hash, err := hex.DecodeString(d.Effective)
	if err != nil || len(hash) != 16 {
		return nil, fmt.Errorf("%w: a decision's pipeline", records.ErrDamaged)
	}
	key := records.Effective.Key(pinc, records.Day(records.TimeOf(d.At)), [16]byte(hash))
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: [][]byte{key}})
	if err != nil {
		return nil, err
	}
	if r.Keys[0].Value == nil {
		return nil, fault.Errorf(fault.Gone, "pipeline_purged",
			"the settings and pipeline that this decision was made with are no longer stored")
	}
	eff := new(policy.Effective)
	if err := json.Unmarshal(r.Keys[0].Value, eff); err != nil {
		return nil, fmt.Errorf("%w: a decision's pipeline: %w", records.ErrDamaged, err)
	}
	return eff, nil
}

// readDecision finds a decision of a project, and what it shares with others.
func (svc *Service) readDecision(ctx context.Context, c access.Caller, projectID, name string) (*project.Record, *decision,
	*policy.Effective, error) {
	p, _, _, err := svc.projects.Read(ctx, c, projectID, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	notFound := fault.Errorf(fault.NotFound, "not_found", "no decision %q", name)
	id, ok := parseDecisionID(name)
	if !ok {
		return nil, nil, nil, notFound
	}
	r, err := svc.db.Store.Read(ctx, c.Tenant, store.Query{Keys: [][]byte{decisionKey(p.Incarnation, id)}})
	if err != nil {
		return nil, nil, nil, err
	}
	it := r.Keys[0]
	if it.Value == nil && !it.Damaged {
		return nil, nil, nil, notFound
	}
	if string(it.Value) == purged {
		return nil, nil, nil, fault.Errorf(fault.Gone, "session_purged", "the session that this decision was made for is deleted")
	}
	d := new(decision)
	if err := json.Unmarshal(it.Value, d); err != nil {
		return nil, nil, nil, fmt.Errorf("%w: decoding a decision: %w", records.ErrDamaged, err)
	}
	eff, err := svc.readEffective(ctx, c.Tenant, p.Incarnation, d)
	return p, d, eff, err
}
