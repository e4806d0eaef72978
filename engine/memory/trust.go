package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/quote"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Trust says how far to trust what a memory says. It is about its content and its value.
type Trust string

// The levels of trust, the lowest first.
const (
	TrustTool     Trust = "tool"     // from a tool's result, another agent, a delegation, or what a user pasted
	TrustModel    Trust = "model"    // stored by a client, a model or a file, and all memories of earlier builds
	TrustUser     Trust = "user"     // said by a user, word for word
	TrustOperator Trust = "operator" // a tenant_admin says so
)

var levels = []Trust{"", TrustTool, TrustModel, TrustUser, TrustOperator}

// Level returns the trust as policies see it: 1 tool, 2 model, 3 user, 4 operator; 0 for "".
func (t Trust) Level() uint8 { return uint8(max(0, slices.Index(levels, t))) }

// AtLeast reports whether the trust is as high as another, or higher.
func (t Trust) AtLeast(other Trust) bool { return t.Level() >= other.Level() }

// MayReplace reports whether a memory of the trust t may replace words of another trust: what is less trusted replaces
// nothing that is more trusted. Policies and what runs by itself obey it; a client may overwrite what it likes.
func (t Trust) MayReplace(old Trust) bool { return t.AtLeast(old) }

// least returns the lower of two levels.
func least(a, b Trust) Trust {
	if a.AtLeast(b) {
		return b
	}
	return a
}

// ParseTrust parses a level of trust; "" is none. It returns invalid_value for any other text.
func ParseTrust(field, s string) (Trust, error) {
	if !slices.Contains(levels, Trust(s)) {
		return "", fault.InvalidField(field, "invalid_value", "must be tool, model, user or operator")
	}
	return Trust(s), nil
}

// Origin says how a version of a memory came to be stored.
type Origin string

const (
	OriginAPI      Origin = "api"      // by a client's request
	OriginTool     Origin = "tool"     // by a model that called memory_store
	OriginFile     Origin = "file"     // by a model that wrote a file of memories
	OriginRemember Origin = "remember" // by a policy that read a session
	OriginImport   Origin = "import"   // from what another program kept
)

// Provenance says where a version of a memory came from. It contains no text of a message.
type Provenance struct {
	Origin  Origin   `json:"origin"`
	Sources []Source `json:"sources,omitempty"` // at most maxSources, the newest last
	// The policy that stored or changed the version, its version, the code of its reason, and its decision.
	Policy     string `json:"policy,omitempty"`
	Version    int    `json:"version,omitempty"`
	Reason     string `json:"reason,omitempty"`
	DecisionID string `json:"decision_id,omitempty"`
}

// Source is a message that a memory is from: its session and its number there. At and Length are the bytes of the words
// in its text, if Length is not 0.
type Source struct {
	SessionID string `json:"session_id"`
	Seq       uint64 `json:"seq"`
	At        int    `json:"at,omitempty"`
	Length    int    `json:"length,omitempty"`
}

// within reports whether At and Length are in a message's text.
func (s *Source) within(text string) bool {
	return s.At >= 0 && s.Length >= 0 && s.Length <= len(text) && s.At <= len(text)-s.Length
}

// sources returns the messages that the memory is from.
func (m *Memory) sources() []Source {
	if m.Provenance == nil {
		return nil
	}
	return m.Provenance.Sources
}

// maxSources is how many messages a memory names.
const maxSources = 16

// sessions are the incarnations of the sessions that a version's sources name, by their ids. A session that is deleted
// and created again under its id is another one, and not the source.
type sessions map[string]ident.Incarnation

// grounds are what a version of a memory rests on.
type grounds struct {
	trust      Trust
	provenance Provenance
	sessions   sessions
}

// checkSources checks the form of sources.
func checkSources(sources []Source) error {
	if len(sources) > maxSources {
		return fault.InvalidField("sources", "too_many", "there are %d, and the limit is %d", len(sources), maxSources)
	}
	for _, s := range sources {
		if err := ident.CheckID("sources", s.SessionID); err != nil {
			return err
		}
		if s.Seq == 0 || s.At < 0 || s.Length < 0 || s.Length == 0 && s.At > 0 {
			return fault.InvalidField("sources", "out_of_range",
				"seq counts from 1, and at and length are bytes of the message's text")
		}
	}
	return nil
}

// TrustOf returns the trust that a memory gets if the caller stores it now over whatever has its key, and its provenance,
// with the places of its words in its sources. It returns trust_too_high if the memory asks for more, and
// source_not_found if it names a message that is not there.
func (svc *Service) TrustOf(ctx context.Context, c ident.Caller, projectID string, spec Spec) (Trust, Provenance, error) {
	g, err := svc.groundsOf(ctx, c, projectID, &spec)
	if err == nil {
		_, err = g.ask(c, spec.Trust)
	}
	return g.trust, g.provenance, err
}

// groundsOf returns what a memory rests on whose words are all of the request. Without sources it reads nothing.
func (svc *Service) groundsOf(ctx context.Context, c ident.Caller, projectID string, spec *Spec) (g grounds, err error) {
	g.trust, g.provenance.Origin = TrustModel, cmp.Or(spec.Origin, OriginAPI)
	if spec.Origin == "" && !spec.Created.IsZero() { // another program stored it then
		g.provenance.Origin = OriginImport
	}
	if len(spec.Sources) > 0 {
		g.sessions = sessions{}
		g.provenance.Sources = slices.Clone(spec.Sources)
		g.trust, err = svc.trace(ctx, c, projectID, spec, &g)
	}
	return g, err
}

// ask gives the memory the trust that a request asks for, which may be less than it would get. Only a tenant_admin may
// ask for more; then raised is true.
func (g *grounds) ask(c ident.Caller, asked Trust) (raised bool, err error) {
	switch {
	case asked == "":
		return false, nil
	case g.trust.AtLeast(asked):
	case c.Role >= ident.RoleTenantAdmin:
		raised = true
	default:
		return false, fault.InvalidField("trust", "trust_too_high", "the memory would be %q, and asks for %q; "+
			"a tenant_admin can raise it, and a message that says it word for word, named in sources",
			string(g.trust), string(asked))
	}
	g.trust = asked
	return raised, nil
}

// ground sets what a record rests on that replaces old, which is nil if there is none. whole says that all words are
// the writer's. A raised trust is in the audit log, which does not name the memory: it outlives it.
func (svc *Service) ground(t *records.Tx, c ident.Caller, p *project.Record, spec *Spec, rec, old *Record, whole bool) error {
	g, err := svc.groundsOf(t.Ctx, c, p.ID, spec)
	if err != nil {
		return err
	}
	if old = old.live(t.Now); old != nil && !whole {
		g = g.over(old, old.Content == rec.Content && bytes.Equal(old.Value, rec.Value))
	}
	before := g.trust
	raised, err := g.ask(c, spec.Trust)
	if err != nil {
		return err
	}
	rec.Trust, rec.Provenance, rec.Sessions = g.trust, &g.provenance, g.sessions
	if !raised {
		return nil
	}
	return tenant.Audit(t, c, "memory.trust", p.ID, fmt.Sprintf("a memory, from %s to %s", before, g.trust))
}

// trace reads the messages that a memory names, and notes where its words stand. It returns the trust that follows.
func (svc *Service) trace(ctx context.Context, c ident.Caller, projectID string, spec *Spec, g *grounds) (Trust, error) {
	said, least := false, TrustModel
	for i := range g.provenance.Sources {
		source := &g.provenance.Sources[i]
		_, h, _, err := svc.transcripts.ReadHead(ctx, c, projectID, source.SessionID)
		if err != nil && !fault.IsNotFound(err) {
			return "", err
		}
		if err != nil || h == nil || source.Seq > h.Messages || h.Superseded.Message(source.Seq) {
			return "", sourceNotFound(source)
		}
		g.sessions[source.SessionID] = h.Incarnation
		bodies, err := svc.transcripts.ReadBodies(ctx, c.Tenant, h.Incarnation, source.Seq, source.Seq)
		if err != nil {
			return "", err
		}
		header, message, err := transcript.ParseBody(bodies[0])
		if err != nil {
			return "", sourceNotFound(source)
		}
		if !source.within(message.Text) {
			return "", fault.InvalidField("sources", "out_of_range", "at and length are not within the text of message %d of session %q",
				source.Seq, source.SessionID)
		}
		trust := trustOfSource(h, header, message.Text, spec, source)
		said = said || trust == TrustUser
		if trust == TrustTool {
			least = TrustTool
		}
	}
	if said && least == TrustModel && len(spec.Value) == 0 {
		return TrustUser, nil
	}
	return least, nil
}

func sourceNotFound(s *Source) error {
	return fault.InvalidField("sources", "source_not_found", "there is no message %d in session %q", s.Seq, s.SessionID)
}

// trustOfSource returns the trust of a memory that is from one message, and notes where its words stand.
func trustOfSource(h *session.Head, m *transcript.Header, text string, spec *Spec, source *Source) Trust {
	switch {
	case m.Role == plan.RoleTool || m.Kind == plan.KindResult || m.Kind == plan.KindA2A || m.Delegation != "":
		return TrustTool
	case m.Role != plan.RoleUser || h.Kind != session.KindChat:
		return TrustModel
	}
	if source.Length > 0 && quote.PastedAt(text, source.At, source.Length) || quote.AllPasted(text) {
		return TrustTool
	}
	found, ok := quote.Find(spec.Content, text)
	if ok && (found.Own || source.Length == 0) { // The words that are trusted are those that are found.
		source.At, source.Length = found.At, found.Length
	}
	switch {
	case ok && found.Own:
		return TrustUser
	case ok && found.Pasted:
		return TrustTool
	}
	return TrustModel
}

// over returns what the edit of a memory rests on: the least trust of what it was and what the writer adds, and the
// sources of both. It keeps the trust of words that stay as they are.
func (g grounds) over(old *Record, sameWords bool) grounds {
	out := g
	switch {
	case sameWords && len(g.provenance.Sources) == 0:
		out.trust = old.Trust
		if old.Provenance != nil {
			out.provenance = *old.Provenance
		}
	default:
		out.trust = least(old.Trust, g.trust)
	}
	out.provenance.Sources, out.sessions = joined(old, g)
	return out
}

// joined returns the sources of a memory and of its edit, the newest last, without those that are named twice or whose
// session was replaced by another one of its id.
func joined(old *Record, g grounds) (sources []Source, in sessions) {
	in = sessions{}
	for _, s := range old.sources() {
		was, known := old.Sessions[s.SessionID]
		now, named := g.sessions[s.SessionID]
		same := func(other Source) bool { return other.SessionID == s.SessionID && other.Seq == s.Seq }
		if known && (!named || now == was) && !slices.ContainsFunc(g.provenance.Sources, same) {
			sources, in[s.SessionID] = append(sources, s), was
		}
	}
	for _, s := range g.provenance.Sources {
		sources, in[s.SessionID] = append(sources, s), g.sessions[s.SessionID]
	}
	if n := len(sources) - maxSources; n > 0 {
		sources = sources[n:]
		for id := range in {
			if !slices.ContainsFunc(sources, func(s Source) bool { return s.SessionID == id }) {
				delete(in, id)
			}
		}
	}
	if len(in) == 0 {
		in = nil
	}
	return sources, in
}
