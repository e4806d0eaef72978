package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// decisionID names a decision by where it lies: its day, its session's incarnation, and a random number.
type decisionID struct {
	day     uint16
	session incarnation
	random  [8]byte
}

const decisionPrefixID = "dec_"

// newDecisionID names the decision that an assembly is about to make.
func (e *Engine) newDecisionID(a *assembly) decisionID {
	id := decisionID{day: day(timeOf(a.at)), session: a.extent.incarnation}
	e.random(id.random[:])
	return id
}

func (d decisionID) String() string {
	b := binary.BigEndian.AppendUint16(make([]byte, 0, 18), d.day)
	b = append(append(b, d.session[:]...), d.random[:]...)
	return decisionPrefixID + idAlphabet.EncodeToString(b)
}

func parseDecisionID(s string) (d decisionID, ok bool) {
	rest, ok := strings.CutPrefix(s, decisionPrefixID)
	b, err := idAlphabet.DecodeString(rest)
	if !ok || err != nil || len(b) != 18 || idAlphabet.EncodeToString(b) != rest {
		return d, false
	}
	return decisionID{binary.BigEndian.Uint16(b), incarnation(b[2:10]), [8]byte(b[10:])}, true
}

// decisionDay reads the day out of a decision's key.
func decisionDay(key []byte) uint16 { return binary.BigEndian.Uint16(key[2+8:]) }

// decisionPart reads the number of the part out of a decision's key.
func decisionPart(key []byte) uint16 { return binary.BigEndian.Uint16(key[len(key)-2:]) }

// decision identifies one window: all inputs, how each step ended, and the hash of the result. The report follows from
// these and is not kept.
type decision struct {
	At        int64           `json:"at"` // ms since 1970
	Seed      string          `json:"seed"`
	Session   string          `json:"session"`
	Extent    decisionExtent  `json:"extent"`
	Bare      bool            `json:"bare,omitempty"`
	Revision  uint64          `json:"revision"`
	Window    string          `json:"window"`
	Usage     json.RawMessage `json:"usage"`
	Effective effective       `json:"effective"`
	Steps     []stepOutcome   `json:"steps"`
	Request   json.RawMessage `json:"request"`
}

type decisionExtent struct {
	Incarnation incarnation `json:"incarnation"`
	Turns       uint32      `json:"turns"`
	Messages    uint64      `json:"messages"`
}

// purged stands in place of a decision whose session was deleted, until its retention ends: nothing of it is left, but
// who asks is told so.
const purged = "purged"

// windowHash is the SHA-256 of what a window shows: system, messages and text, each behind its length.
func windowHash(w *chat.Window) [32]byte {
	h := sha256.New()
	var n [8]byte
	for _, part := range [...][]byte{[]byte(w.System), w.Messages, w.Text} {
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	return [32]byte(h.Sum(nil))
}

// keepDecision writes the record of a window before it is answered.
func (e *Engine) keepDecision(ctx context.Context, tenant string, p *project, a *assembly, id decisionID, session string, revision uint64, raw []byte, w *chat.Window) error {
	hash := windowHash(w)
	b := make([]byte, 0, 1024+len(a.record)+len(raw))
	b = strconv.AppendInt(append(b, `{"at":`...), a.at, 10)
	b = append(strconv.AppendUint(append(b, `,"seed":"`...), a.seed, 10), `","session":"`...)
	b = append(append(b, session...), `","extent":{"incarnation":"`...)
	b = append(hex.AppendEncode(b, a.extent.incarnation[:]), `","turns":`...)
	b = strconv.AppendUint(b, uint64(a.extent.turns), 10)
	b = strconv.AppendUint(append(b, `,"messages":`...), a.extent.messages, 10)
	b = strconv.AppendBool(append(b, `},"bare":`...), a.bare)
	b = strconv.AppendUint(append(b, `,"revision":`...), revision, 10)
	b = append(hex.AppendEncode(append(b, `,"window":"`...), hash[:]), `","usage":`...)
	b = a.appendUsage(b, w)
	b = append(append(b, `,"effective":`...), a.record...)
	b = a.appendSteps(append(b, `,"steps":`...))
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	b = append(append(b, `,"request":`...), raw...)
	b = append(b, '}')
	key := decisionKey(p.Incarnation, id)
	return e.putParts(ctx, tenant, key, b)
}

// partsPerCommit keeps the commits of a long decision well below what one may hold.
const partsPerCommit = 8

// putParts writes a loose record that may be longer than one value. Its first part comes last: until then there is none.
func (e *Engine) putParts(ctx context.Context, tenant string, key, value []byte) error {
	for last := bodyParts(uint32(len(value))); last > 0; {
		first := max(0, last-partsPerCommit)
		var batch store.Batch
		for part := first; part < last; part++ {
			batch.Put = append(batch.Put, store.Pair{Key: binary.BigEndian.AppendUint16(key[:len(key):len(key)], uint16(part)),
				Value: value[part*maxBodyPart : min(len(value), (part+1)*maxBodyPart)]})
		}
		if err := e.commit(ctx, tenant, batch); err != nil {
			return err
		}
		last = first
	}
	return nil
}

// readDecision finds a decision of a project.
func (e *Engine) readDecision(ctx context.Context, c Caller, projectID, name string) (*project, *decision, error) {
	p, _, _, err := e.readProject(ctx, c, projectID, nil)
	if err != nil {
		return nil, nil, err
	}
	notFound := errorf(NotFound, "not_found", "no decision %q", name)
	id, ok := parseDecisionID(name)
	if !ok {
		return nil, nil, notFound
	}
	r, err := e.store.Read(ctx, c.Tenant, store.Query{Ranges: []store.Range{prefixRange(decisionKey(p.Incarnation, id))}})
	if err != nil {
		return nil, nil, err
	}
	if len(r.Ranges[0]) == 0 {
		return nil, nil, notFound
	}
	if len(r.Ranges[0]) == 1 && string(r.Ranges[0][0].Value) == purged {
		return nil, nil, errorf(Gone, "session_purged", "the session that this decision was made for is deleted")
	}
	d := new(decision)
	if err := json.Unmarshal(joinBody(r.Ranges[0]), d); err != nil {
		return nil, nil, fmt.Errorf("%w: decoding a decision: %w", errDamaged, err)
	}
	return p, d, nil
}

// again makes ready to compute a decision's window once more, from its inputs.
func (e *Engine) again(ctx context.Context, c Caller, p *project, d *decision) (*assembly, error) {
	seed, err := strconv.ParseUint(d.Seed, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: a decision's seed", errDamaged)
	}
	x := extent{d.Extent.Incarnation, d.Extent.Turns, d.Extent.Messages}
	if x.turns > 0 {
		r, err := e.store.Read(ctx, c.Tenant, store.Query{Keys: [][]byte{headKey(p.Incarnation, d.Session)}})
		if err != nil {
			return nil, err
		}
		var h head
		if r.Keys[0].Value != nil {
			if err := json.Unmarshal(r.Keys[0].Value, &h); err != nil {
				return nil, err
			}
		}
		if h.Incarnation != x.incarnation {
			return nil, errorf(Gone, "session_purged", "the messages of session %q that this decision was made from are purged", d.Session)
		}
	}
	req := new(ContextRequest)
	if err := json.Unmarshal(d.Request, req); err != nil {
		return nil, fmt.Errorf("%w: a decision's request", errDamaged)
	}
	pinned, err := e.pinned(ctx, d)
	if err != nil {
		return nil, err
	}
	a := &assembly{e: e, ctx: ctx, tenant: c.Tenant, inputs: inputs{at: d.At, seed: seed, extent: x, bare: d.Bare,
		request: req, resolved: pinned, outcomes: d.Steps}, scratch: new(scratch)}
	if err := a.prepare(); err != nil {
		return nil, err
	}
	a.view, err = e.at(ctx, c.Tenant, x, a.horizon()+1)
	return a, err
}

// pinned makes a decision's own settings and steps ready again.
func (e *Engine) pinned(ctx context.Context, d *decision) (*resolved, error) {
	r := &resolved{settings: d.Effective.Settings, encoding: d.Effective.Settings.encoding(),
		steps: d.Effective.Steps, fallback: d.Effective.Fallback}
	for _, steps := range [][]step{r.steps, r.fallback} {
		for i := range steps {
			s := &steps[i]
			b, err := hex.DecodeString(strings.TrimPrefix(s.Hex, "sha256:"))
			if err != nil || len(b) != len(s.Digest) {
				return nil, fmt.Errorf("%w: a decision's policy digest", errDamaged)
			}
			s.Digest = plan.Digest(b)
			policy, err := e.loaded(ctx, s.Digest)
			if err != nil {
				return nil, err
			}
			if s.entries, err = policy.Manifest.Config(s.Config); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// Replay computes a decision's window again and appends whether it is the same, and the window.
func (e *Engine) Replay(ctx context.Context, c Caller, projectID, id string, dst []byte) ([]byte, error) {
	p, d, err := e.readDecision(ctx, c, projectID, id)
	if err != nil {
		return dst, err
	}
	a, err := e.again(ctx, c, p, d)
	if err != nil {
		return dst, err
	}
	dst, w, err := a.appendWindow(append(dst, `{"window":{`...))
	if err != nil {
		return dst, err
	}
	hash := windowHash(&w)
	dst = strconv.AppendBool(append(dst, `},"equal":`...), hex.EncodeToString(hash[:]) == d.Window)
	return append(append(append(dst, `,"decision_id":"`...), id...), `"}`...), nil
}

// Decision appends a decision with its report, which is computed again. Where an input was purged, report is null and
// purged says which.
func (e *Engine) Decision(ctx context.Context, c Caller, projectID, id string, dst []byte) ([]byte, error) {
	p, d, err := e.readDecision(ctx, c, projectID, id)
	if err != nil {
		return dst, err
	}
	settings := d.Effective.Settings
	for _, s := range d.Effective.Steps {
		settings.Pipeline = append(settings.Pipeline, PipelineStep{Policy: fmt.Sprintf("%s@%d", s.Policy, s.Version),
			Config: s.Config, OnError: s.OnError})
	}
	out := map[string]any{"decision_id": id, "session_id": d.Session, "created_at": timeOf(d.At), "revision": d.Revision,
		"turns": d.Extent.Turns, "window_sha256": d.Window, "usage": d.Usage, "pipeline": d.Steps, "settings": settings,
		"request": d.Request, "summary": nil, "report": nil}
	a, err := e.again(ctx, c, p, d)
	if err == nil {
		_, err = a.window(nil)
	}
	known, isKnown := err.(*Error)
	switch {
	case err == nil:
		out["format"] = a.format.String()
		out["report"] = json.RawMessage(a.appendReport(nil))
	case isKnown && known.Kind == Gone:
		out["purged"] = known.Detail
	default:
		return dst, err
	}
	b := bytes.NewBuffer(dst)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false) // the request is shown as it came
	err = enc.Encode(out)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
