// Package decision stores how each window was made, so that the same window can be made again: its inputs, the outcome
// of each step of its pipeline, and the hash of the result.
//
// The keys of decisions begin with the project and the day, so that retention deletes whole ranges. The session's
// incarnation comes next, so that all decisions of a deleted session are found with one range for each day. Decisions
// are loose records: a crash of the machine may lose the newest ones, and no other record depends on them.
package decision

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/callid"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// Service stores and reads decisions.
type Service struct {
	db           *records.DB
	projects     *project.Service
	writtenToday writtenToday
	effectives   records.Memo[policy.Effective]
}

// New returns a Service.
func New(db *records.DB, projects *project.Service) *Service {
	return &Service{db: db, projects: projects}
}

// ID identifies a decision by the parts of its key: its day, its session's incarnation, and a unique number. The number
// begins with the time in microseconds, so that new decisions sort after older ones, and ends with random bytes.
type ID struct {
	day     uint16
	session ident.Incarnation
	unique  [14]byte
}

const idPrefix = "dec_"

// NewID returns a new id for a decision about a session, made at a time in ms since 1970. A session without turns has
// no incarnation yet; one derived from its id is used instead.
func (svc *Service) NewID(at int64, sessionID string, sinc ident.Incarnation) ID {
	id := ID{day: records.Day(records.TimeOf(at)), session: sinc}
	if sinc == (ident.Incarnation{}) {
		id.session = session.Unborn(sessionID)
	}
	micros := at*1000 + int64(svc.db.Clock().Nanosecond()/1000%1000) // so that decisions of the same millisecond have an order
	binary.BigEndian.PutUint64(id.unique[:8], uint64(micros))
	svc.db.Random(id.unique[8:])
	return id
}

func (id ID) String() string {
	b := binary.BigEndian.AppendUint16(make([]byte, 0, 24), id.day)
	b = append(append(b, id.session[:]...), id.unique[:]...)
	return idPrefix + ident.Alphabet.EncodeToString(b)
}

// parseID parses the result of String. It accepts no other spelling of the same id.
func parseID(s string) (id ID, ok bool) {
	rest, ok := strings.CutPrefix(s, idPrefix)
	b, err := ident.Alphabet.DecodeString(rest)
	if !ok || err != nil || len(b) != 24 || ident.Alphabet.EncodeToString(b) != rest {
		return id, false
	}
	return ID{binary.BigEndian.Uint16(b), ident.Incarnation(b[2:10]), [14]byte(b[10:])}, true
}

func (id ID) key(pinc ident.Incarnation) []byte {
	return records.Decision.Key(pinc, id.day, id.session, id.unique)
}

// splitKey splits a decision's key.
func splitKey(key []byte) (pinc ident.Incarnation, id ID) {
	pinc, id.day, id.session, id.unique, _ = records.Decision.Split(key)
	return pinc, id
}

// made returns the time of the decision.
func (id ID) made() time.Time { return time.UnixMicro(int64(binary.BigEndian.Uint64(id.unique[:8]))) }

// Record is the stored form of a decision: all inputs of the window, the outcome of each step, and the hash of the
// result. The report is not stored, because it can be recomputed.
type Record struct {
	Rules     int    `json:"rules"` // plan.Rules when the window was made; another version cannot replay it
	At        int64  `json:"at"`    // ms since 1970
	Seed      uint64 `json:"seed,string"`
	ForkOf    string `json:"fork_of,omitempty"` // the decision from whose inputs other rules made this one
	Session   string `json:"session"`
	Extent    Extent `json:"extent"`
	Tokens    uint64 `json:"tokens,omitempty"` // of the session, as its head counted them
	Bare      bool   `json:"bare"`
	Tight     bool   `json:"tight"`
	Shortened bool   `json:"shortened,omitempty"`
	// Names maps tool names in pending messages, which windows changed, to the tools' own names.
	Names    callid.Own        `json:"names,omitempty"`
	Summary  uint32            `json:"summary,omitempty"` // the version that existed; 0 if none
	Memories []reminder.Memory `json:"memories,omitempty"`
	// Reminder is the reminder before the newest user message. It is nil if there is none, or if it is stored with the
	// message.
	Reminder  *reminder.Current `json:"reminder,omitempty"`
	Forgotten []reminder.Memory `json:"forgotten,omitempty"` // of earlier reminders: they were not there any more
	Revision  uint64            `json:"revision"`
	Window    string            `json:"window"` // the window's hash, in hex
	Usage     Usage             `json:"usage"`
	Cut       bool              `json:"cut,omitempty"` // it does not begin with all history of the window before
	Prompt    Prompt            `json:"prompt"`
	Effective string            `json:"effective"` // hash of the settings and the pinned pipeline, in hex
	Steps     []Step            `json:"steps"`
	// Request is the request as received. It is the last field, and encode appends it unchanged.
	Request json.RawMessage `json:"request,omitzero"`
}

// Extent is the stored form of a transcript.Extent.
type Extent struct {
	Incarnation ident.Incarnation `json:"incarnation"`
	Turns       uint32            `json:"turns"`
	Messages    uint64            `json:"messages"`
	Superseded  transcript.Runs   `json:"superseded,omitempty"`
	Edits       uint32            `json:"edits,omitempty"`
}

// Session says whether the session of a window exists. A session that does not exist has an empty history. The default
// session always exists.
type Session struct {
	Exists bool `json:"exists"`
}

// Usage has the messages and tokens of a window, and of what it was selected from.
type Usage struct {
	Messages           uint64 `json:"messages"`
	Tokens             uint64 `json:"tokens"`
	HistoryMessages    uint64 `json:"history_messages"`
	CompressedMessages uint64 `json:"compressed_messages"` // earlier questions, which are no history messages
	HistoryTokens      uint64 `json:"history_tokens"`
	SystemTokens       uint64 `json:"system_tokens"`
	ConsideredMessages uint64 `json:"considered_messages"`
	ConsideredTokens   uint64 `json:"considered_tokens"`
	Parts              Parts  `json:"parts"`
	// Prefix is nil if there is no previous window.
	Prefix *Prefix `json:"prefix"`
}

// Prefix is the part of a window that the previous window of the same session, viewer and format began with, too.
type Prefix struct {
	Messages uint64  `json:"messages"`
	Tokens   uint64  `json:"tokens"`
	Share    float64 `json:"share"` // of the tokens of the window before
}

// Prompt is what a decision stores about its window as a prompt.
type Prompt struct {
	End prefix.Place `json:"end"` // after the last message
	// Made says which window each pending message with thinking answered, by the message's index in the request.
	Made map[int]prefix.Place `json:"made,omitempty"`
	// Breakpoints are the parts after which Mneme put cache breakpoints.
	Breakpoints []int `json:"breakpoints,omitempty"`
}

// Step is the outcome of one step of a pipeline, as stored and as shown in responses.
type Step struct {
	Policy   string      `json:"policy"`
	Version  int         `json:"version"`
	Digest   string      `json:"digest"`
	Fuel     uint64      `json:"fuel"`
	Duration uint64      `json:"duration_us"`
	Outcome  plan.Status `json:"outcome"`
	Detail   string      `json:"detail,omitempty"`
	Log      []LogLine   `json:"log,omitempty"`
}

// LogLine is one line that a policy wrote.
type LogLine struct {
	Level   string `json:"level"`
	Message string `json:"message"`
}

// wordsRoom limits the details and logs of all steps in a decision, in bytes; each line counts lineWords more. Without
// it, 16 steps with 4 KiB each would make decisions of 64 KiB.
const (
	wordsRoom = 8 << 10
	lineWords = 16
	// leastDetail bytes of each step's detail are always kept, because the detail says why the step failed.
	leastDetail = 256
)

// Limit shortens a step's detail and drops the last lines of its log to fit what earlier steps have left of wordsRoom.
func (s *Step) Limit(earlier []Step) {
	room := wordsRoom
	for i := range earlier {
		room -= earlier[i].words()
	}
	if keep := max(leastDetail, room); len(s.Detail) > keep {
		s.Detail = strings.ToValidUTF8(s.Detail[:keep], "") + "…"
	}
	room -= len(s.Detail)
	for i, line := range s.Log {
		if room -= len(line.Message) + lineWords; room < 0 {
			s.Log = slices.Clip(s.Log[:i])
			return
		}
	}
}

func (s *Step) words() int {
	n := len(s.Detail)
	for _, line := range s.Log {
		n += len(line.Message) + lineWords
	}
	return n
}

// Keep stores a decision of a project, with its row and its window's trace. Before these it stores what the decision
// shares with others of its day, unless that was done already.
func (svc *Service) Keep(ctx context.Context, tenant string, pinc ident.Incarnation, id ID, r Record, seen Seen,
	ready *policy.Ready, traced Traced) error {
	if err := svc.keepEffective(ctx, tenant, pinc, id.day, ready); err != nil {
		return err
	}
	r.Effective, r.Rules = hex.EncodeToString(ready.Hash[:]), plan.Rules
	b, err := r.encode()
	if err != nil {
		return err
	}
	row, err := r.row(seen).encode()
	if err != nil {
		return err
	}
	key := id.key(pinc)
	put := []store.Pair{{Key: key, Value: b}, {Key: id.rowKey(pinc), Value: row}}
	if traced.Trace != nil {
		put = append(put, traced.pair(pinc, id.day))
	}
	return svc.db.Commit(ctx, tenant, store.Batch{Expect: []store.Expect{{Key: key}}, Put: put})
}

// KeepRest stores what later windows need of one whose decision is not kept: its trace and, for a model call, its row.
func (svc *Service) KeepRest(ctx context.Context, tenant string, pinc ident.Incarnation, id ID, r *Record, seen Seen,
	traced Traced) error {
	var b store.Batch
	if seen.Proxied {
		var err error
		if b, err = rowAlone(pinc, id, r.row(seen)); err != nil {
			return err
		}
	}
	if traced.Trace != nil {
		b.Put = append(b.Put, traced.pair(pinc, id.day))
	}
	if len(b.Put) == 0 {
		return nil
	}
	return svc.db.Commit(ctx, tenant, b)
}

// rowAlone is the batch that stores a row without its decision. A mark takes the place of the decision, so that the row
// is found and purged like others.
func rowAlone(pinc ident.Incarnation, id ID, row *Row) (store.Batch, error) {
	b, err := row.encode()
	key := id.key(pinc)
	return store.Batch{Expect: []store.Expect{{Key: key}},
		Put: []store.Pair{{Key: key, Value: []byte(unkept)}, {Key: id.rowKey(pinc), Value: b}}}, err
}

// Kept reports whether a project keeps this decision, given its setting; see project.Settings. left says that the
// window left out thinking.
func (r *Record) Kept(setting string, left bool) bool {
	switch setting {
	case project.DecisionsNone:
		return false
	case project.DecisionsErrors:
		return left || r.Cut || r.Shortened ||
			slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Outcome != plan.StatusOK })
	}
	return true
}

// Decision is a stored decision of a project, with the settings and the pinned pipeline that it shares with others.
type Decision struct {
	ID      string
	Project *project.Record
	Record
	Shared *policy.Effective // stored once for all decisions that have the same
	Reader ident.Caller      // that the decision is read for
}

// purged replaces the value of a decision whose session was deleted, until the decision's retention ends.
const purged = "purged"

// unkept is the value of a decision of which the project keeps only the row.
const unkept = "unkept"

// Read returns a decision of a project. Errors are not_found, session_purged if its session was deleted,
// pipeline_purged if its settings are no longer stored, no_window if it has no window, and decision_not_kept if the
// project keeps only its row.
func (svc *Service) Read(ctx context.Context, c ident.Caller, projectID, name string) (*Decision, error) {
	d, err := svc.find(ctx, c, projectID, name)
	if err != nil {
		return nil, err
	}
	if d.Passed() {
		return nil, errPassed()
	}
	return d, svc.readEffective(ctx, c.Tenant, d)
}

// find is Read without Shared.
func (svc *Service) find(ctx context.Context, c ident.Caller, projectID, name string) (*Decision, error) {
	p, _, _, err := svc.projects.Read(ctx, c.Unconfined(), projectID, nil)
	if err != nil {
		return nil, err
	}
	notFound := fault.Errorf(fault.NotFound, "not_found", "no decision %q", name)
	id, ok := parseID(name)
	if !ok {
		return nil, notFound
	}
	it, err := svc.db.ReadItem(ctx, c.Tenant, id.key(p.Incarnation))
	switch {
	case err != nil:
		return nil, err
	case it.Value == nil && !it.Damaged, c.Namespaces != nil && (string(it.Value) == purged || string(it.Value) == unkept):
		return nil, notFound
	case string(it.Value) == purged:
		return nil, fault.Errorf(fault.Gone, "session_purged", "the session that this decision was made for is deleted, or what the decision saw of it was erased")
	}
	if string(it.Value) == unkept {
		return nil, fault.Errorf(fault.Gone, "decision_not_kept",
			"the project's setting decisions kept only the row of this call")
	}
	d := &Decision{ID: name, Project: p, Reader: c}
	if err := json.Unmarshal(it.Value, &d.Record); err != nil {
		return nil, fmt.Errorf("%w: decoding a decision: %w", records.ErrDamaged, err)
	}
	if c.Namespaces == nil {
		return d, nil
	}
	mine, err := svc.reaches(ctx, c, d)
	if err == nil && !mine {
		err = notFound
	}
	return d, err
}

// reaches reports whether a caller that is narrowed to namespaces may read a decision: it reaches the namespace of the
// session, which still exists, and the one in which the window looked for memories. Decisions from before a session's first
// turn belong to no namespace.
func (svc *Service) reaches(ctx context.Context, c ident.Caller, d *Decision) (bool, error) {
	it, err := svc.db.ReadItem(ctx, c.Tenant, records.Session.Key(d.Project.Incarnation, d.Session))
	if err != nil {
		return false, err
	}
	h, err := session.DecodeHead(it)
	if err != nil || h == nil || h.Incarnation != d.Extent.Incarnation || !c.Reaches(h.Namespace) {
		return false, err
	}
	var asked struct {
		Memories struct {
			Namespace []string `json:"namespace"`
		} `json:"memories"`
	}
	if err := json.Unmarshal(d.Request, &asked); err != nil {
		return false, fmt.Errorf("%w: a decision's request", records.ErrDamaged)
	}
	return len(asked.Memories.Namespace) == 0 || c.Reaches(asked.Memories.Namespace), nil
}
