package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Changes are the fields that a patch may name.
type Changes struct {
	Content    string                     `json:"content"`
	Category   string                     `json:"category"`
	Tags       []string                   `json:"tags"`
	Source     string                     `json:"source"`
	SessionID  string                     `json:"session_id"`
	Importance *float64                   `json:"importance"`
	ExpiresAt  *time.Time                 `json:"expires_at" day:"end"`
	OccurredAt *time.Time                 `json:"occurred_at"`
	Metadata   map[string]json.RawMessage `json:"metadata"`
	Value      json.RawMessage            `json:"value"`
	Trust      Trust                      `json:"trust"`
	Sources    []Source                   `json:"sources"`
	Pinned     bool                       `json:"pinned"`
	Standing   bool                       `json:"standing"`
}

// Patch is a JSON merge patch (RFC 7396) of a memory, with the names of Changes. Fields that it does not name stay, and
// null clears a field that may be empty.
type Patch map[string]json.RawMessage

// Patched is the result of a patch.
type Patched struct {
	Memory
	Created bool
	Changed []string // the fields that differ from before, sorted; nil for a new memory
}

// Patch changes a memory by its full name. A patch that changes nothing makes no new version. It returns not_found,
// version_mismatch, and the errors of Store.
func (svc *Service) Patch(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string, patch Patch,
	expected Precondition) (Memory, error) {
	c, err := reach(c, id)
	if err != nil {
		return Memory{}, err
	}
	out, err := svc.patch(ctx, c, once, projectID, id, patch, expected, nil)
	return out.Memory, err
}

// Merge patches the memory with start's namespace and key, or stores a new memory if there is none. Without a key it
// generates one. The session of start is used for a conversation memory without a session, and for a new daily one.
func (svc *Service) Merge(ctx context.Context, c ident.Caller, once ident.Once, projectID string, patch Patch,
	expected Precondition, start Spec) (Patched, error) {
	var err error
	if c, start.Namespace, err = c.In(start.Namespace); err != nil {
		return Patched{}, err
	}
	return svc.patch(ctx, c, once, projectID, ID(start.Namespace, start.Key), patch, expected, &start)
}

// patch is Patch if start is nil, and otherwise Merge.
func (svc *Service) patch(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string, patch Patch,
	expected Precondition, start *Spec) (Patched, error) {
	var put *Record // by the last attempt
	var a admitting
	defer a.out()
	room := svc.tallies.Reserve(c.Tenant)
	out, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (stored, error) {
		p, err := svc.projects.Project(t, c, projectID)
		if err != nil {
			return stored{}, err
		}
		if !ident.ValidFullName(id) && start == nil {
			return stored{}, noMemory(id)
		}
		made := ""
		if start != nil && start.Key == "" {
			made = svc.db.NewID("mem_", 10)
			id = ID(start.Namespace, made)
		}
		old, err := svc.expect(t, p.Incarnation, id)
		if err == nil {
			err = expected.check(id, old.live(t.Now))
		}
		if err != nil {
			return stored{}, err
		}
		if old.live(t.Now) == nil && start == nil {
			return stored{}, noMemory(id)
		}
		out, rec, err := svc.putPatched(t, &a, c, p, id, patch, start, old, room)
		put, out.Made = rec, made
		return out, err
	})
	room.End(err == nil)
	if out.Made != "" || out.Merged != "" {
		id = out.writtenTo(start)
	}
	a.end(id, err)
	if err != nil {
		return Patched{}, err
	}
	m, err := svc.asStored(ctx, c, projectID, id, put, out)
	return Patched{m, out.Created, out.Changed}, err
}

func noMemory(id string) error { return fault.Errorf(fault.NotFound, "not_found", "no memory %q", id) }

// putPatched adds the writes of a patch of old, or of start if there is no live memory.
func (svc *Service) putPatched(t *records.Tx, a *admitting, c ident.Caller, p *project.Record, id string, patch Patch,
	start *Spec, old *Record, room *records.Reservation) (out stored, rec *Record, err error) {
	live := old.live(t.Now)
	var spec Spec
	if live != nil {
		spec = live.Spec()
	}
	err = patch.apply(&spec)
	if ofSession := spec.Category == Conversation || spec.Category == Daily && live == nil; start != nil && ofSession &&
		spec.SessionID == "" {
		spec.SessionID = start.SessionID
	}
	if err != nil {
		return out, nil, err
	}
	spec.Namespace, spec.Key = ident.SplitFullName(id)
	if start != nil {
		spec.Origin, spec.Sources = start.Origin, start.Sources
	}
	if err := spec.complete(); err != nil {
		return out, nil, err
	}
	rec = &Record{Memory: spec.memory(c)}
	if live == nil {
		if err := svc.ground(t, c, p, &spec, rec, nil, true); err != nil {
			return out, nil, err
		}
		return svc.admitPatched(t, a, c, p, spec, rec, nil, old, start, room)
	}
	changed, err := spec.unlike(live.Spec())
	if err != nil {
		return out, nil, err
	}
	if len(changed) > 0 || spec.Trust != "" || len(spec.Sources) > 0 {
		// With its content, memory_store replaces all words of a memory.
		whole := start != nil && patch["content"] != nil && len(spec.Value) == 0 &&
			(spec.Content != live.Content || len(spec.Sources) > 0)
		if err := svc.ground(t, c, p, &spec, rec, live, whole); err != nil {
			return out, nil, err
		}
		changed = append(changed, rec.otherGrounds(live)...)
	}
	if len(changed) == 0 {
		return stored{Incarnation: live.Incarnation, Version: live.Version, CreatedAt: live.CreatedAt,
			UpdatedAt: live.UpdatedAt, ExpiresAt: live.ExpiresAt}, live, nil
	}
	slices.Sort(changed)
	out, rec, err = svc.admitPatched(t, a, c, p, spec, rec, live, old, start, room)
	out.Changed = changed
	return out, rec, err
}

// admitPatched stores what a patch gives. What a tool writes is a candidate. A patch of a client's is not: it names the
// memory and the fields.
func (svc *Service) admitPatched(t *records.Tx, a *admitting, c ident.Caller, p *project.Record, spec Spec, rec, live,
	old *Record, start *Spec, room *records.Reservation) (stored, *Record, error) {
	if start == nil {
		out, err := svc.storeOver(t, p, &spec, rec, old, nil, room)
		return out, rec, err
	}
	candidate := &Candidate{Caller: c, Project: p, Spec: spec, Record: rec, Stored: live}
	candidate.Spec.Key = start.Key
	return svc.admit(t, a, candidate, old, room)
}

// otherGrounds returns which of trust and sources differ from an earlier version.
func (r *Record) otherGrounds(before *Record) (names []string) {
	if r.Trust != before.Trust {
		names = append(names, "trust")
	}
	if !slices.Equal(r.sources(), before.sources()) {
		names = append(names, "sources")
	}
	return names
}

// version returns the memory as the request left it, or as it is now if that version is no longer kept. It may return
// memory_forgotten.
func (svc *Service) version(ctx context.Context, c ident.Caller, projectID, id string, out stored) (Memory, error) {
	if err := svc.stillThere(ctx, c, projectID, id, out); err != nil {
		return Memory{}, err
	}
	p, _, _, err := svc.projects.Read(ctx, c, projectID, nil)
	if err != nil {
		return Memory{}, err
	}
	keys := [][]byte{records.Memory.Key(p.Incarnation, id),
		keptVersion{Version: out.Version}.record(p.Incarnation, id)}
	found, err := svc.Load(ctx, c.Tenant, keys)
	if err != nil {
		return Memory{}, err
	}
	for _, rec := range slices.Backward(found) {
		if rec != nil && !rec.Damaged && rec.Incarnation == out.Incarnation {
			return rec.Memory, nil
		}
	}
	return Memory{}, errDamaged(id)
}

// apply changes a spec. A content that was derived from the value changes with it.
func (p Patch) apply(s *Spec) error {
	if _, ok := p["content"]; !ok && p["value"] != nil && s.Content == contentOf(s.Value) {
		s.Content = ""
	}
	category := s.Category
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if err := s.set(name, p[name]); err != nil {
			return err
		}
	}
	if _, ok := p["expires_at"]; !ok && s.Category != category {
		switch s.Category {
		case core, Daily: // core memories never expire, and daily ones as if they were new
			s.ExpiresAt = nil
		}
	}
	return nil
}

// set changes a field as a merge patch does.
func (s *Spec) set(name string, raw json.RawMessage) (err error) {
	null := string(bytes.TrimSpace(raw)) == "null"
	var into any
	switch name {
	case "content":
		s.Content = ""
		into = &s.Content
	case "category", "importance":
		if null {
			return fault.InvalidField(name, "invalid_value", "cannot be cleared; name another, or leave it out")
		}
		into = &s.Category
		if name == "importance" {
			into = &s.Importance
		}
	case "tags":
		s.Tags = nil
		into = &s.Tags
	case "source":
		s.Source = ""
		into = &s.Source
	case "session_id":
		s.SessionID = ""
		into = &s.SessionID
	case "expires_at":
		s.ExpiresAt = nil
		into = &s.ExpiresAt
	case "occurred_at":
		s.OccurredAt = nil
		into = &s.OccurredAt
	case "trust":
		if null {
			return fault.InvalidField(name, "invalid_value", "cannot be cleared; name another, or leave it out")
		}
		into = &s.Trust
	case "sources":
		into = &s.Sources
	case "pinned":
		s.Pinned = false
		into = &s.Pinned
	case "standing":
		s.Standing = false
		into = &s.Standing
	case "metadata":
		before, err := json.Marshal(s.Metadata)
		if err != nil {
			return err
		}
		s.Metadata = nil
		raw, into = merged(before, raw), &s.Metadata
	case "value":
		s.Value = merged(s.Value, raw)
		return nil
	default:
		return fault.InvalidField(name, "unknown_field", "a patch cannot name it")
	}
	if null {
		return nil
	}
	if json.Unmarshal(raw, into) != nil {
		return fault.InvalidField(name, "wrong_type", "does not have the type of this field")
	}
	return nil
}

// merged applies a merge patch to JSON, as in RFC 7396.
func merged(target, patch json.RawMessage) json.RawMessage {
	var changes, now map[string]json.RawMessage
	if json.Unmarshal(patch, &changes) != nil || changes == nil {
		return patch
	}
	if json.Unmarshal(target, &now) != nil || now == nil {
		now = map[string]json.RawMessage{}
	}
	for name, change := range changes {
		if string(bytes.TrimSpace(change)) == "null" {
			delete(now, name)
		} else {
			now[name] = merged(now[name], change)
		}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(now) != nil { // all of it was decoded from JSON
		return patch
	}
	return bytes.TrimSpace(out.Bytes())
}

// contentOf returns the content of a memory that has only a value: the value in words.
func contentOf(value json.RawMessage) string {
	if len(value) == 0 {
		return ""
	}
	if text := strings.TrimSpace(rawjson.Text(value)); visible(text) {
		return text
	}
	return string(value)
}

// unlike returns the names of the fields of a spec that differ from an earlier one, but for trust and sources.
func (s *Spec) unlike(before Spec) (names []string, err error) {
	if err := before.complete(); err != nil {
		return nil, err
	}
	now := *s
	now.Trust, now.Sources = "", nil
	var fields [2]map[string]json.RawMessage
	for i, one := range []*Spec{&now, &before} {
		raw, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &fields[i]); err != nil {
			return nil, err
		}
	}
	all := maps.Clone(fields[0])
	maps.Copy(all, fields[1])
	for name := range all {
		if !bytes.Equal(fields[0][name], fields[1][name]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
