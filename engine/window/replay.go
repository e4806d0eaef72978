package window

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// again makes ready to compute a decision's window once more, from its inputs.
func (svc *Service) again(ctx context.Context, c access.Caller, p *project.Record, d *decision, eff *policy.Effective) (*assembly, error) {
	seed, err := strconv.ParseUint(d.Seed, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: a decision's seed", records.ErrDamaged)
	}
	x := transcript.Extent{Incarnation: d.Extent.Incarnation, Turns: d.Extent.Turns, Messages: d.Extent.Messages}
	if x.Turns > 0 {
		r, err := svc.db.Store.Read(ctx, c.Tenant, store.Query{Keys: [][]byte{records.Session.Key(p.Incarnation, d.Session)}})
		if err != nil {
			return nil, err
		}
		if r.Keys[0].Damaged {
			return nil, records.ErrDamaged
		}
		var h session.Head
		if r.Keys[0].Value != nil {
			if err := json.Unmarshal(r.Keys[0].Value, &h); err != nil {
				return nil, err
			}
		}
		if h.Incarnation != x.Incarnation {
			return nil, errSessionPurged(d)
		}
	}
	req := new(ContextRequest)
	if err := json.Unmarshal(d.Request, req); err != nil {
		return nil, fmt.Errorf("%w: a decision's request", records.ErrDamaged)
	}
	pinned, err := svc.policies.Pinned(ctx, c.Tenant, eff)
	if err != nil {
		return nil, err
	}
	a := &assembly{e: svc, ctx: ctx, tenant: c.Tenant, inputs: inputs{at: d.At, seed: seed, extent: x, bare: d.Bare,
		tight:   d.Tight,
		request: req, Ready: pinned, outcomes: d.Steps}, scratch: new(scratch)}
	if err := a.prepare(); err != nil {
		return nil, err
	}
	if a.memories, err = svc.readRemembered(ctx, c.Tenant, p, d); err != nil {
		return nil, err
	}
	if a.view, err = svc.at(ctx, c.Tenant, x, a.horizon()+1); err != nil || d.Summary == 0 {
		return a, err
	}
	if a.summary, err = svc.sessions.ReadSummary(ctx, c.Tenant, x.Incarnation, d.Summary); err == nil && a.summary == nil {
		err = fault.Errorf(fault.Gone, "summary_purged", "version %d of the summary of session %q, which this decision used, is purged",
			d.Summary, d.Session)
	}
	return a, err
}

func errSessionPurged(d *decision) error {
	return fault.Errorf(fault.Gone, "session_purged", "the messages of session %q that this decision was made from are purged",
		d.Session)
}

// purgedMeanwhile tells damage from a session that was deleted while its window was made again.
func (a *assembly) purgedMeanwhile(err error, p *project.Record, d *decision) error {
	if a.damage > 0 || errors.Is(err, records.ErrDamaged) {
		if gone, lookErr := a.gone(records.Session.Key(p.Incarnation, d.Session)); lookErr != nil || gone {
			return cmp.Or(lookErr, errSessionPurged(d))
		}
	}
	return err
}

// Replay computes a decision's window again and appends whether it is the same, and the window. It answers not_found, and
// session_purged, memory_purged, summary_purged, module_purged or pipeline_purged where an input is no longer stored.
func (svc *Service) Replay(ctx context.Context, c access.Caller, projectID, id string, dst []byte) ([]byte, error) {
	p, d, eff, err := svc.readDecision(ctx, c, projectID, id)
	if err != nil {
		return dst, err
	}
	a, err := svc.again(ctx, c, p, d, eff)
	if err != nil {
		return dst, err
	}
	dst = a.openWindow(append(dst, `{"window":{`...))
	w, err := a.make(dst)
	if err = a.purgedMeanwhile(err, p, d); err != nil {
		return dst, err
	}
	dst = a.closeWindow(dst, &w)
	dst = strconv.AppendBool(append(dst, `},"equal":`...), hex.EncodeToString(a.result.hash) == d.Window)
	return append(append(append(dst, `,"decision_id":"`...), id...), `"}`...), nil
}

// Decision appends a decision with its report, which is computed again. Where an input was purged, report is null and
// purged says which. Decision answers not_found, session_purged and pipeline_purged.
func (svc *Service) Decision(ctx context.Context, c access.Caller, projectID, id string, dst []byte) ([]byte, error) {
	p, d, eff, err := svc.readDecision(ctx, c, projectID, id)
	if err != nil {
		return dst, err
	}
	settings := eff.Settings
	for _, s := range eff.Steps {
		settings.Pipeline = append(settings.Pipeline, project.PipelineStep{Policy: fmt.Sprintf("%s@%d", s.Policy, s.Version),
			Config: s.Config, OnError: s.OnError})
	}
	out := map[string]any{"decision_id": id, "session_id": d.Session, "created_at": records.TimeOf(d.At), "revision": d.Revision,
		"turns": d.Extent.Turns, "window_hash": d.Window, "usage": d.Usage, "pipeline": d.Steps, "settings": settings,
		"request": d.Request, "summary": nil, "report": nil}
	a, err := svc.again(ctx, c, p, d, eff)
	if err == nil {
		_, err = a.make(nil)
		err = a.purgedMeanwhile(err, p, d)
	}
	known, isKnown := err.(*fault.Error)
	switch {
	case err == nil:
		out["format"] = a.format.String()
		out["report"] = json.RawMessage(a.appendReport(nil))
		if req := a.request; req.Memories != nil {
			out["memories"] = json.RawMessage(a.appendMemories(nil))
		}
		out["summary"] = json.RawMessage(a.appendSummary(nil))
	case isKnown && known.Kind == fault.Gone:
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
