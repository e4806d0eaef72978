// Package admit lets the policies of a project's admit_pipeline decide whether and how a memory is written.
package admit

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/likeness"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/plan/hook"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// What a table has besides the candidate and the memory under its key.
const (
	maxFound = 32      // memories that recall finds
	maxAlike = 8       // of them in the table
	minAlike = 300_000 // of likeness.MaxScore
	maxQuery = 2 << 10 // bytes of the candidate's text that recall searches for
)

// Service implements memory.Admission.
type Service struct {
	db       *records.DB
	projects *project.Service
	memories *memory.Service
	recall   *recall.Service
	policies *policy.Service
	comparer *likeness.Comparer

	// Count counts the tokens of a text in an encoding, until stop returns true. Rate returns how well a text matches a
	// query.
	Count func(encoding int, text string, stop func() bool) (int, bool)
	Rate  func(text, query string) int
}

// New returns a Service.
func New(db *records.DB, projects *project.Service, memories *memory.Service, found *recall.Service,
	policies *policy.Service, comparer *likeness.Comparer) *Service {
	return &Service{db: db, projects: projects, memories: memories, recall: found, policies: policies, comparer: comparer}
}

var _ memory.Admission = (*Service)(nil)

// Asks reports whether a project has an admit_pipeline.
func (svc *Service) Asks(p *project.Record) (bool, error) {
	if len(svc.projects.DefaultSettings().AdmitPipeline) == 0 && !bytes.Contains(p.Set, []byte(`"admit_pipeline"`)) {
		return false, nil
	}
	set, err := svc.projects.WithDefaults(p.Set)
	return len(set.AdmitPipeline) > 0, err
}

// Admit runs the project's admit_pipeline over a candidate. It returns policy_failed if a step with on_error "error" fails.
func (svc *Service) Admit(ctx context.Context, c *memory.Candidate) (*memory.Verdict, error) {
	set, err := svc.projects.WithDefaults(c.Project.Set)
	if err != nil {
		return nil, err
	}
	steps, err := svc.policies.HookSteps(ctx, c.Caller.Tenant, set, plan.HookAdmit, set.AdmitPipeline)
	if err != nil {
		return nil, err
	}
	a := &table{svc: svc, candidate: c}
	a.Count = func(text string, stop func() bool) (int, bool) { return svc.Count(set.Encoding(), text, stop) }
	if err := a.fill(ctx); err != nil {
		return nil, err
	}
	run, err := svc.policies.RunHook(ctx, c.Caller.Tenant, steps, &a.Table)
	if err != nil {
		return nil, err
	}
	return a.verdict(run)
}

// table is the table of one candidate.
type table struct {
	hook.Table
	svc       *Service
	candidate *memory.Candidate
	memories  []*memory.Record // of the records from 1 on
}

// fill sets the table's records: the candidate, the memory under its key, and the memories that are most alike.
func (a *table) fill(ctx context.Context) error {
	svc, c := a.svc, a.candidate
	now := svc.db.Now().UnixMilli()
	a.Hook, a.Origin, a.Now = plan.HookAdmit, originOf(c.Record), now
	a.Rate, a.Patched = svc.Rate, a.patched
	found, err := svc.alike(ctx, c)
	if err != nil {
		return err
	}
	if c.Stored != nil {
		own := c.Stored.ID()
		found = slices.DeleteFunc(found, func(r *memory.Record) bool { return r.ID() == own })
		a.memories = append(a.memories, c.Stored)
	}
	a.memories = append(a.memories, found...)
	candidate, err := recordOf(&c.Record.Memory, c.Spec)
	if err != nil {
		return err
	}
	candidate.Kind, candidate.Key, candidate.Version = plan.KindCandidate, c.Spec.Key, 0
	a.Records = append(a.Records, candidate)
	for _, m := range a.memories {
		r, err := recordOf(&m.Memory, m.Spec())
		if err != nil {
			return err
		}
		a.Records = append(a.Records, r)
	}
	a.relate(&a.Table)
	return nil
}

// alike returns the memories of the candidate's namespace that are most alike, at most maxAlike, the most alike first.
func (svc *Service) alike(ctx context.Context, c *memory.Candidate) ([]*memory.Record, error) {
	text := c.Record.Text()
	if len(text) > maxQuery {
		text = strings.ToValidUTF8(text[:maxQuery], "")
	}
	result, err := svc.recall.Recall(ctx, c.Caller, c.Project.ID, recall.Query{Query: text, Limit: maxFound,
		Namespace: c.Spec.Namespace, Alike: true, Plain: true})
	if err != nil {
		return nil, err
	}
	type near struct {
		id    string
		score uint32
	}
	var all []near
	read := svc.comparer.Read(c.Record.Content)
	for i := range result.Data {
		h := &result.Data[i]
		if score := likeness.Compare(read, svc.comparer.Read(h.Content), likeness.MaxScore).Score; score >= minAlike {
			all = append(all, near{memory.ID(h.Namespace, h.Key), score})
		}
	}
	slices.SortStableFunc(all, func(a, b near) int { return int(int64(b.score) - int64(a.score)) })
	all = all[:min(len(all), maxAlike)]
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].id
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := svc.memories.Read(ctx, c.Caller.Tenant, c.Project, ids)
	return slices.DeleteFunc(found, func(r *memory.Record) bool { return r == nil || r.Damaged }), err
}

// relate sets the flags and scores that depend on the candidate's text.
func (a *table) relate(t *hook.Table) {
	const compared = plan.ExtraEqual | plan.ExtraCovers | plan.ExtraCovered | plan.ExtraEqualDigits
	candidate := a.svc.comparer.Read(t.Records[0].Text)
	if a.candidate.Chosen {
		t.Records[0].Flags |= plan.ExtraClientKey
	}
	for i := 1; i < len(t.Records); i++ {
		r, m := &t.Records[i], a.memories[i-1]
		l := likeness.Compare(candidate, a.svc.comparer.Read(r.Text), 0)
		r.Score, r.Flags = l.Score, r.Flags&^compared
		for flag, holds := range map[plan.ExtraFlags]bool{plan.ExtraEqual: l.Equal, plan.ExtraCovers: l.Covers,
			plan.ExtraCovered: l.Covered, plan.ExtraEqualDigits: l.Digits, plan.ExtraPinnedMemory: m.Pinned,
			plan.ExtraCandidateKey: m == a.candidate.Stored} {
			if holds {
				r.Flags |= flag
			}
		}
	}
}

// patched sets the candidate to a patched spec.
func (a *table) patched(t *hook.Table, record int, text []byte) error {
	spec, err := memory.ReadSpec(text)
	if err != nil {
		return err
	}
	m, err := a.candidate.With(&spec)
	if err != nil {
		return err
	}
	was := &t.Records[record]
	now, err := recordOf(&m, spec)
	if err != nil {
		return err
	}
	now.Kind, now.Key, now.Trust, now.ID, now.Version = was.Kind, was.Key, was.Trust, was.ID, 0
	if now.Text != was.Text || now.Value != was.Value {
		now.Trust = min(now.Trust, plan.TrustModel)
	}
	t.Records[record] = now
	a.relate(t)
	return nil
}

// recordOf returns a memory as a record of a table.
func recordOf(m *memory.Memory, spec memory.Spec) (hook.Record, error) {
	spec.Trust, spec.Sources = "", nil
	text, err := json.Marshal(spec)
	if err != nil {
		return hook.Record{}, err
	}
	namespace := m.Namespace
	if namespace == nil {
		namespace = []string{}
	}
	path, err := json.Marshal(namespace)
	if err != nil {
		return hook.Record{}, err
	}
	r := hook.Record{Kind: plan.KindMemory, Role: plan.RoleSystem, Text: m.Content, Spec: text, Tags: m.Tags, Key: m.Key,
		Namespace: string(path), Value: string(m.Value)}
	r.Category = uint8(slices.Index(memory.Categories(), m.Category) + 1)
	r.Trust, r.Importance, r.Version = plan.Trust(m.Trust.Level()), float32(m.Importance), uint32(m.Version)
	if m.SessionID != nil {
		r.Session = *m.SessionID
	}
	if m.OccurredAt != nil {
		r.Occurred = m.OccurredAt.UnixMilli()
	}
	if m.ExpiresAt != nil {
		r.Expires = m.ExpiresAt.UnixMilli()
	}
	r.Head.Created = m.UpdatedAt.UnixMilli()
	if m.UpdatedAt.IsZero() {
		r.Head.Created = 0
	}
	return r, nil
}

func originOf(r *memory.Record) plan.Origin {
	if r.Provenance == nil {
		return plan.OriginAPI
	}
	switch r.Provenance.Origin {
	case memory.OriginTool:
		return plan.OriginTool
	case memory.OriginFile:
		return plan.OriginFile
	case memory.OriginRemember:
		return plan.OriginRemember
	}
	return plan.OriginAPI
}

// verdict returns what a run of the pipeline decided.
func (a *table) verdict(run *policy.HookRun) (*memory.Verdict, error) {
	v := &memory.Verdict{}
	for i := range run.Changes {
		change := &run.Changes[i]
		step := &run.Steps[change.Step]
		v.Policy, v.Version, v.Reason = step.Policy, step.Version, change.Reason
		switch change.Code {
		case plan.OpPatch:
			spec, err := memory.ReadSpec([]byte(change.Text))
			if err != nil {
				return nil, err
			}
			v.Spec = &spec
		case plan.OpRefuse:
			v.Refused = change.Reason
		case plan.OpMerge:
			v.Into, v.Keep = a.memories[change.First-1], change.Argument == plan.KeepStored
			if v.Text = change.Text; v.Text == "" {
				v.Text = run.Table.Records[0].Text
			}
		}
	}
	return v, nil
}
