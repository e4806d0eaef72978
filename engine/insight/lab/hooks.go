package lab

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/likeness"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/plan/hook"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// HookCase is the table of a memory hook in a self-test or a trial: admit takes a candidate, remember messages and an
// answer, recall a query, and all of them memories.
type HookCase struct {
	Hook      string       `json:"hook,omitempty"`   // "" is assemble
	Origin    string       `json:"origin,omitempty"` // of the candidate: api (the default), tool, file or remember
	Candidate *HookMemory  `json:"candidate,omitempty"`
	Query     string       `json:"query,omitempty"`
	Memories  []HookMemory `json:"memories,omitempty"`
	// Answer is what the model answers to an ASK. Without one, a trial stops at the ASK.
	Answer *string `json:"answer,omitempty"`
}

// HookMemory is a candidate or a stored memory of a table: its spec, and what the server would know of it. A spec without
// trust has the trust model.
type HookMemory struct {
	HookSpec
	ClientKey    bool       `json:"client_key,omitempty"` // the client chose the key
	Version      uint32     `json:"version,omitempty"`
	CreatedAt    *time.Time `json:"created_at,omitempty"`
	LastRecalled *time.Time `json:"last_recalled_at,omitempty"`
	Recalls      uint32     `json:"recalls,omitempty"` // days of the last 90
	Score        uint32     `json:"score,omitempty"`   // of a hit; how alike memories and a candidate are is computed
	Shown        bool       `json:"shown,omitempty"`   // in the session's windows
}

// HookSpec is the spec of a memory. It is a type of its own because it is a part of HookMemory, and not described apart.
type HookSpec memory.Spec

// HookOp is an op of a plan of a memory hook.
type HookOp struct {
	Op       string `json:"op"`            // refuse, patch, merge, store, forget, ask, rank, drop or replace
	Key      string `json:"key,omitempty"` // of the record, or of the memory that another one goes into
	From     string `json:"from,omitempty"`
	First    int    `json:"first"`
	Last     int    `json:"last"`
	Argument uint32 `json:"argument,omitempty"`
	Text     string `json:"text,omitempty"`
	Reason   string `json:"reason,omitempty"` // its code
}

// HookLog is a line that a policy wrote.
type HookLog struct {
	Level   string `json:"level"`
	Message string `json:"message"`
}

var hookOps = map[plan.OpCode]string{plan.OpRefuse: "refuse", plan.OpPatch: "patch", plan.OpMerge: "merge", plan.OpStore: "store",
	plan.OpForget: "forget", plan.OpAsk: "ask", plan.OpRank: "rank", plan.OpDrop: "drop", plan.OpReplace: "replace"}

// hook returns the memory hook that a case names, or false for assemble.
func (h *HookCase) hook() (plan.Hook, bool, error) {
	named, ok := plan.HookNamed(cmp.Or(h.Hook, plan.HookAssemble.String()))
	if !ok {
		return 0, false, fault.InvalidField("hook", "invalid_value", "must be assemble, admit, remember, recall or retain")
	}
	if named.Assembles() && (h.Candidate != nil || h.Query != "" || h.Memories != nil || h.Answer != nil || h.Origin != "") {
		return 0, false, fault.InvalidField("hook", "required", "must name the hook of the candidate, query, memories or answer")
	}
	return named, !named.Assembles(), nil
}

// table makes the table of a case at a time, in ms.
func (svc *Service) table(named plan.Hook, h *HookCase, messages []json.RawMessage, now int64) (*hook.Table, error) {
	t := &hook.Table{Hook: named, Now: now, Rate: svc.windows.Rate,
		Count: func(text string, stop func() bool) (int, bool) { return svc.sessions.CountUntil(0, text, stop) }}
	if (h.Candidate != nil) != (named == plan.HookAdmit) {
		return nil, fault.InvalidField("candidate", "invalid_value", "must be given for the hook admit and for no other")
	}
	if (h.Query != "") != (named == plan.HookRecall) {
		return nil, fault.InvalidField("query", "invalid_value", "must be given for the hook recall and for no other")
	}
	if len(messages) > 0 && named != plan.HookRemember || h.Answer != nil && named != plan.HookRemember {
		return nil, fault.InvalidField("messages", "invalid_value", "messages and answer are for the hooks assemble and remember")
	}
	if named == plan.HookAdmit {
		origin := slices.Index([]string{"", "api", "tool", "file", "remember"}, cmp.Or(h.Origin, "api"))
		if origin < 1 {
			return nil, fault.InvalidField("origin", "invalid_value", "must be api, tool, file or remember")
		}
		t.Origin = plan.Origin(origin)
		if err := h.Candidate.add(t, plan.KindCandidate, "candidate"); err != nil {
			return nil, err
		}
	}
	if named == plan.HookRecall {
		t.Records = append(t.Records, hook.Record{Kind: plan.KindQuery, Role: plan.RoleSystem, Text: h.Query})
	}
	if err := addMessages(t, messages); err != nil {
		return nil, err
	}
	for i := range h.Memories {
		if err := h.Memories[i].add(t, plan.KindMemory, fmt.Sprintf("memories[%d]", i)); err != nil {
			return nil, err
		}
	}
	t.Patched = svc.patched
	svc.relate(t)
	return t, nil
}

// add appends the record of a memory, or returns the field that is wrong.
func (m *HookMemory) add(t *hook.Table, kind plan.Kind, field string) error {
	r := hook.Record{Kind: kind, Role: plan.RoleSystem}
	r.Version, r.Recalls, r.Score = m.Version, m.Recalls, m.Score
	if kind == plan.KindMemory {
		r.Version = max(m.Version, 1)
	}
	r.LastRecalled, r.Head.Created = millis(m.LastRecalled), cmp.Or(millis(m.CreatedAt), t.Now)
	if m.ClientKey {
		r.Flags |= plan.ExtraClientKey
	}
	if m.Shown {
		r.Flags |= plan.ExtraShown
	}
	if err := setSpec(&r, memory.Spec(m.HookSpec)); err != nil {
		return fault.InvalidField(field, "invalid_value", "%s", err)
	}
	t.Records = append(t.Records, r)
	return nil
}

// setSpec sets what follows from a record's spec.
func setSpec(r *hook.Record, s memory.Spec) error {
	s.Trust = cmp.Or(s.Trust, memory.TrustModel)
	if _, err := memory.ParseTrust("trust", string(s.Trust)); err != nil {
		return err
	}
	if strings.TrimSpace(s.Content) == "" && len(s.Value) == 0 {
		return fmt.Errorf("content: must have a visible character")
	}
	category := slices.Index(memory.Categories(), cmp.Or(s.Category, memory.Categories()[0]))
	if category < 0 {
		return fmt.Errorf("category: must be one of %s", strings.Join(memory.Categories(), ", "))
	}
	namespace, err := json.Marshal(append([]string{}, s.Namespace...))
	if err != nil {
		return err
	}
	if r.Spec, err = json.Marshal(s); err != nil {
		return err
	}
	r.Text, r.Tags, r.Key, r.Namespace, r.Session = s.Content, s.Tags, s.Key, string(namespace), s.SessionID
	r.Category, r.Trust = uint8(category+1), plan.Trust(s.Trust.Level())
	r.Occurred, r.Expires, r.Importance = millis(s.OccurredAt), millis(s.ExpiresAt), 0.5
	if s.Importance != nil {
		r.Importance = float32(*s.Importance)
	}
	var value bytes.Buffer
	if len(s.Value) > 0 && json.Compact(&value, s.Value) != nil {
		return fmt.Errorf("value: must be JSON")
	}
	r.Value = value.String()
	r.Flags &^= plan.ExtraPinnedMemory
	if s.Pinned {
		r.Flags |= plan.ExtraPinnedMemory
	}
	return nil
}

func millis(at *time.Time) int64 {
	if at == nil {
		return 0
	}
	return at.UnixMilli()
}

// patched sets the spec that a PATCH gave.
func (svc *Service) patched(t *hook.Table, record int, spec []byte) error {
	var s memory.Spec
	d := json.NewDecoder(bytes.NewReader(spec))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return err
	}
	if err := setSpec(&t.Records[record], s); err != nil {
		return err
	}
	svc.relate(t)
	return nil
}

// relate sets how memories and the candidate relate.
func (svc *Service) relate(t *hook.Table) {
	if t.Hook != plan.HookAdmit {
		return
	}
	const relations = plan.ExtraCandidateKey | plan.ExtraEqual | plan.ExtraCovers | plan.ExtraCovered | plan.ExtraEqualDigits
	candidate := svc.Comparer.Read(t.Records[0].Text)
	for i := 1; i < len(t.Records); i++ {
		r := &t.Records[i]
		is := likeness.Compare(candidate, svc.Comparer.Read(r.Text), 0)
		r.Score, r.Flags = is.Score, r.Flags&^relations
		for _, f := range [...]struct {
			flag  plan.ExtraFlags
			holds bool
		}{
			{plan.ExtraCandidateKey, r.Key != "" && r.Key == t.Records[0].Key}, {plan.ExtraEqual, is.Equal},
			{plan.ExtraCovers, is.Covers}, {plan.ExtraCovered, is.Covered}, {plan.ExtraEqualDigits, is.Digits},
		} {
			if f.holds {
				r.Flags |= f.flag
			}
		}
	}
}

// addMessages appends the records of messages as posted in openai.chat.
func addMessages(t *hook.Table, messages []json.RawMessage) error {
	parsed, _, err := transcript.ParseMessages(chat.OpenAIChat, messages)
	if err != nil {
		return err
	}
	turn, calls := uint32(0), map[string]plan.Called{}
	for i := range parsed {
		m := &parsed[i]
		if m.Role == plan.RoleUser || turn == 0 {
			turn++
		}
		r := hook.Record{Kind: m.Kind, Role: m.Role, Text: m.Text, Tags: m.Tags,
			Head: plan.Record{Seq: uint64(i + 1), Turn: turn, Place: turn, Created: t.Now}}
		r.Trust = plan.TrustModel
		if m.Role == plan.RoleUser {
			r.Trust = plan.TrustUser
		} else if m.Role == plan.RoleTool {
			r.Trust = plan.TrustTool
		}
		if m.Delegation != "" {
			r.Head.Delegation, r.Trust = 1, plan.TrustTool
		}
		for _, c := range m.Calls {
			called := plan.Called{Name: c.Name, Arguments: c.Arguments}
			calls[c.ID], r.Calls = called, append(r.Calls, called)
		}
		if called, ok := calls[m.CallID]; ok && m.Role == plan.RoleTool {
			r.Calls = []plan.Called{called}
		}
		t.Records = append(t.Records, r)
	}
	return nil
}

// tryHook runs a policy over a case's table, and again with the answer if it asks and there is one. Its changes are
// those of both runs.
func (svc *Service) tryHook(ctx context.Context, tenant string, s policy.Step, t *hook.Table, answer *string) (hook.Step, []HookOp, error) {
	run, err := svc.policies.TryHook(ctx, tenant, s, t)
	if err != nil {
		return hook.Step{}, nil, err
	}
	ops, out := shownOps(t, run.Changes), run.Steps[0]
	if run.Asked == nil || answer == nil {
		return out, ops, nil
	}
	again, err := svc.policies.TryHook(ctx, tenant, s, run.Table.Answered(*answer))
	if err != nil {
		return hook.Step{}, nil, err
	}
	second := again.Steps[0]
	second.Fuel, second.Log = second.Fuel+out.Fuel, slices.Concat(out.Log, second.Log)
	return second, append(ops, shownOps(t, again.Changes)...), nil
}

// shownOps returns the ops of changes to a table.
func shownOps(t *hook.Table, changes []hook.Change) []HookOp {
	ops := make([]HookOp, 0, len(changes))
	for i := range changes {
		c := &changes[i]
		op := HookOp{Op: hookOps[c.Code], First: c.First, Last: c.Last, Argument: c.Argument, Text: c.Text, Reason: c.Reason}
		if c.Code != plan.OpStore && c.Code != plan.OpAsk && c.First < len(t.Records) {
			op.Key = t.Records[c.First].Key
		}
		if c.Code == plan.OpMerge && c.Last < len(t.Records) {
			op.From = t.Records[c.Last].Key
		}
		ops = append(ops, op)
	}
	return ops
}

// is reports whether an op is the expected one: its name, or its name and what identifies it. That is the reason's code
// for a REFUSE, the content for a STORE, and the key for others.
func (op *HookOp) is(expected string) bool {
	name, rest, more := strings.Cut(expected, ":")
	if name != op.Op || !more {
		return name == op.Op
	}
	switch op.Op {
	case "refuse", "ask":
		return rest == op.Reason
	case "store":
		var spec struct{ Content string }
		return json.Unmarshal([]byte(op.Text), &spec) == nil && spec.Content == rest
	}
	return rest == op.Key
}

// String shows an op as tests expect it.
func (op *HookOp) String() string {
	rest := op.Key
	switch op.Op {
	case "refuse", "ask":
		rest = op.Reason
	case "store":
		var spec struct{ Content string }
		if json.Unmarshal([]byte(op.Text), &spec) == nil {
			rest = spec.Content
		}
	}
	if rest == "" {
		return op.Op
	}
	return op.Op + ":" + rest
}
