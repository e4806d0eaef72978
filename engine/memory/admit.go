package memory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Admission decides whether and how a memory is written. It is asked before clients, tools and files write one, not by
// imports, restores and renames.
type Admission interface {
	// Asks reports whether a project has policies that decide.
	Asks(p *project.Record) (bool, error)
	// Admit lets them decide. It reads, and changes nothing.
	Admit(ctx context.Context, c *Candidate) (*Verdict, error)
}

// Candidate is a memory that is about to be written.
type Candidate struct {
	Caller  ident.Caller
	Project *project.Record
	Spec    Spec    // complete; Key is empty if Mneme makes one
	Record  *Record // what would be stored
	Stored  *Record // the memory under its key; nil if there is none
	Chosen  bool    // a client or a file chose the key
}

// Verdict is what becomes of a candidate. The zero Verdict stores it as it is.
type Verdict struct {
	Refused string // the code of the reason
	Spec    *Spec  // what is stored instead
	// Into is the memory that the candidate is merged into, in the version that the policies saw. With Keep it stays as it
	// is; otherwise its content becomes Text.
	Into *Record
	Keep bool
	Text string
	// The policy that decided, the code of its reason, and the decision.
	Policy     string
	Version    int
	Reason     string
	DecisionID string
	// Done stores the decision. It is called once the memory is written, with its key, or when it is refused; nil if there
	// is nothing to store.
	Done func(id string)
}

// Limits of races between writers whose keys Mneme makes.
const (
	maxRaces  = 3   // so often the policies are asked again
	longestOf = 256 // writers that wait for one namespace
)

// admitting is the state of one request, over all its attempts to commit.
type admitting struct {
	leave   func()
	verdict *Verdict
}

// out leaves the line, if the request is in it.
func (a *admitting) out() {
	if a.leave != nil {
		a.leave()
		a.leave = nil
	}
}

// end leaves the line, and stores the decision of a request that succeeded.
func (a *admitting) end(id string, failed error) {
	a.out()
	if failed == nil && a.verdict != nil && a.verdict.Done != nil {
		a.verdict.Done(id)
	}
}

// admit stores a record as far as the project's policies allow. It returns what is stored: the record, or the memory that
// it was merged into. It returns memory_refused, and namespace_busy if other writers of the namespace were always faster.
func (svc *Service) admit(t *records.Tx, a *admitting, c *Candidate, old *Record, room *records.Reservation) (
	out stored, rec *Record, err error) {
	a.verdict = nil
	asks := false
	if svc.Admission != nil && c.Spec.Origin != OriginImport {
		if asks, err = svc.Admission.Asks(c.Project); err != nil {
			return out, nil, err
		}
	}
	if !asks {
		out, err = svc.storeOver(t, c.Project, &c.Spec, c.Record, old, nil, room)
		return out, c.Record, err
	}
	if !c.Chosen && t.Tried > maxRaces {
		return out, nil, errBusy()
	}
	if err := svc.enter(t, a, c); err != nil {
		return out, nil, err
	}
	for range maxRaces {
		if out, rec, err = svc.decide(t, a, c, old, room); !errors.Is(err, errStale) {
			return out, rec, err
		}
	}
	return out, nil, errBusy()
}

// errStale says that a memory changed after the policies saw it.
var errStale = errors.New("the memory changed meanwhile")

// decide asks the policies, and does what they say.
func (svc *Service) decide(t *records.Tx, a *admitting, c *Candidate, old *Record, room *records.Reservation) (
	out stored, rec *Record, err error) {
	verdict, err := svc.Admission.Admit(t.Ctx, c)
	if err != nil {
		return out, nil, err
	}
	if verdict.Refused != "" {
		if verdict.Done != nil {
			verdict.Done("")
		}
		return out, nil, fault.Errorf(fault.Invalid, "memory_refused", "the policy %s refused the memory: %s",
			verdict.Policy, verdict.Refused)
	}
	a.verdict = verdict
	if verdict.Into != nil {
		return svc.merge(t, c, verdict, room)
	}
	if verdict.Spec != nil {
		if err := c.replace(verdict); err != nil {
			return out, nil, err
		}
	}
	out, err = svc.storeOver(t, c.Project, &c.Spec, c.Record, old, nil, room)
	return out, c.Record, err
}

func errBusy() error {
	return fault.Errorf(fault.Conflict, "namespace_busy",
		"others keep writing memories of this namespace; try again, or give the memory a key")
}

// enter waits until no other request of this process writes a memory of the namespace under a key of Mneme's own. The
// commit then expects that no other process has.
func (svc *Service) enter(t *records.Tx, a *admitting, c *Candidate) error {
	if c.Chosen {
		return nil
	}
	if a.leave == nil {
		name := t.Tenant + "\x00" + string(c.Project.Incarnation[:]) + ID(c.Spec.Namespace, "x")
		leave, err := svc.lines.Enter(t.Ctx, name)
		if errors.Is(err, admission.ErrFull) {
			return errBusy()
		}
		if err != nil {
			return err
		}
		a.leave = leave
	}
	key := records.AdmitLine.Key(c.Project.Incarnation, "/"+strings.Join(c.Spec.Namespace, "/")) // never empty
	line, err := t.Get(key)
	if err != nil {
		return err
	}
	n, _ := binary.Uvarint(line[0].Value)
	t.Put(key, binary.AppendUvarint(nil, n+1))
	return nil
}

// replace sets what is stored to what a policy made of the candidate. New words are not the writer's, so they are
// trusted as a model's at most.
func (c *Candidate) replace(v *Verdict) error {
	spec := *v.Spec
	spec.Pinned, spec.Trust, spec.Sources, spec.Origin = c.Spec.Pinned, c.Spec.Trust, c.Spec.Sources, c.Spec.Origin
	m, err := c.With(&spec)
	if err != nil {
		return err
	}
	was := c.Record
	rec := &Record{Memory: m, Sessions: was.Sessions}
	rec.Key, rec.Trust = was.Key, was.Trust
	if rec.Content != was.Content || string(rec.Value) != string(was.Value) {
		rec.Trust = least(rec.Trust, TrustModel)
	}
	rec.Provenance = v.provenance(was)
	c.Spec, c.Record = spec, rec
	return nil
}

// provenance returns where a record is from that a policy changed.
func (v *Verdict) provenance(of *Record) *Provenance {
	p := Provenance{Origin: OriginAPI}
	if of.Provenance != nil {
		p = *of.Provenance
	}
	p.Policy, p.Version, p.Reason, p.DecisionID = v.Policy, v.Version, v.Reason, v.DecisionID
	return &p
}

// merge adds the writes that merge a candidate into the memory that a policy named. That memory must be as the policy saw
// it; otherwise the update begins again.
func (svc *Service) merge(t *records.Tx, c *Candidate, v *Verdict, room *records.Reservation) (out stored, rec *Record,
	err error) {
	pinc := c.Project.Incarnation
	into, err := svc.expect(t, pinc, v.Into.ID())
	if err != nil {
		return out, nil, err
	}
	if into.live(t.Now) == nil || into.Incarnation != v.Into.Incarnation || into.Version != v.Into.Version {
		return out, nil, errStale
	}
	next := *into
	next.Tags = slices.Clone(into.Tags)
	adds := c.Record.Trust.AtLeast(into.Trust) && !into.Pinned
	if adds { // What is less trusted adds nothing to what is more trusted, and nothing is added to what is pinned.
		next.add(c.Record)
	}
	out = stored{Incarnation: into.Incarnation, Merged: into.ID(), Version: into.Version, CreatedAt: into.CreatedAt,
		UpdatedAt: into.UpdatedAt, ExpiresAt: into.ExpiresAt}
	if v.Keep {
		if !adds || slices.Equal(next.Tags, into.Tags) && len(c.Record.otherSources(into)) == 0 {
			return out, into, nil
		}
		if err := svc.hold(t.Ctx, room, replacing(into, &next)); err != nil {
			return out, nil, err
		}
		return out, &next, svc.put(t, pinc, &next, into)
	}
	spec := next.Spec()
	spec.Content = v.Text
	if err := spec.complete(); err != nil {
		return out, nil, err
	}
	rec = &Record{Memory: spec.memory(c.Caller), Sessions: next.Sessions}
	rec.Trust = c.Record.Trust
	if v.Text != c.Record.Content {
		rec.Trust = least(least(c.Record.Trust, into.Trust), TrustModel)
	}
	rec.Provenance = v.provenance(&Record{Memory: Memory{Provenance: next.Provenance}})
	rec.Provenance.Origin = c.Record.Provenance.Origin
	out, err = svc.storeOver(t, c.Project, &spec, rec, into, nil, room)
	out.Merged = into.ID()
	return out, rec, err
}

// add adds another record's tags and sources.
func (r *Record) add(other *Record) {
	for _, tag := range other.Tags {
		if !slices.Contains(r.Tags, tag) && len(r.Tags) < maxTags {
			r.Tags = append(r.Tags, tag)
		}
	}
	if other.Provenance == nil || len(other.Provenance.Sources) == 0 {
		return
	}
	p := Provenance{Origin: OriginAPI}
	if r.Provenance != nil {
		p = *r.Provenance
	}
	p.Sources, r.Sessions = joined(r, grounds{provenance: *other.Provenance, sessions: other.Sessions})
	r.Provenance = &p
}

// otherSources returns the sources that another record does not name.
func (r *Record) otherSources(than *Record) (out []Source) {
	if r.Provenance == nil {
		return nil
	}
	for _, s := range r.Provenance.Sources {
		if than.Provenance == nil || !slices.ContainsFunc(than.Provenance.Sources, func(o Source) bool {
			return o.SessionID == s.SessionID && o.Seq == s.Seq
		}) {
			out = append(out, s)
		}
	}
	return out
}

// writtenTo returns the full name of the memory that a request wrote: the one that its candidate was merged into, or its
// own, whose key Mneme may have made.
func (out *stored) writtenTo(spec *Spec) string {
	return cmp.Or(out.Merged, ID(spec.Namespace, cmp.Or(spec.Key, out.Made)))
}

// ReadSpec decodes a spec. It returns an error for unknown fields and wrong types.
func ReadSpec(text []byte) (s Spec, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return s, d.Decode(&s)
}

// With returns the memory that another spec would store, which it completes and gives the candidate's key and namespace.
// It returns the errors of Store.
func (c *Candidate) With(spec *Spec) (Memory, error) {
	spec.Key, spec.Namespace = c.Spec.Key, c.Spec.Namespace
	if err := spec.complete(); err != nil {
		return Memory{}, err
	}
	return spec.memory(c.Caller), nil
}
