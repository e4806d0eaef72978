package align

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// Request is what tells of a request whose it is.
type Request struct {
	Path   string                     // the session that the path names, if any
	Header func(name string) string   // a header's value
	Body   func(member string) []byte // a top-level member of the body, as JSON; nil: it has none
}

// Identity says whose a request is.
type Identity struct {
	Session string // an id under which a session can be stored; empty: none is named
	By      string // the name of the header or member that named the session, or "path"
	Agent   string // the agent within the session; empty: the main one
	// Previous is the response that the request goes on from, and Weak says that it would tell the session before Session
	// does, where it is known.
	Previous string
	Weak     bool
	// Class is what Claude Code says of the request: main, subagent, workflow, compaction or auxiliary. Codex says
	// compaction.
	Class string
	// Compacted says that the client has summarised the history that it sends. Codex counts how often it has.
	Compacted bool
}

// headers name sessions, and members name them in the body; the first that is there counts. Members behind a point lie
// in an object. What names a person or a prompt is not among them: user, safety_identifier.
var (
	headers = []string{"X-Mneme-Session", "X-Claude-Code-Session-Id", "Session-Id", "Session_id", "X-Session-Id",
		"X-Session-Affinity"}
	members = []string{"metadata.session_id", "metadata.conversation_id", "metadata.thread_id"}
	// lesser are those of other gateways.
	lesser = []string{"Agent-Session-Id", "Helicone-Session-Id", "X-Sm-Conversation-Id", "X-Litellm-Session-Id"}
)

// Identify finds whose a request is.
func Identify(r Request) Identity {
	id := Identity{Previous: r.text("previous_response_id"), Class: r.class()}
	id.Session, id.By, id.Weak = r.session()
	id.Weak = id.Weak && id.Previous != ""
	id.Session = named(id.Session, ident.CheckSession)
	id.Agent = r.agent()
	window := r.codex("X-Codex-Window-Id") // the thread, and behind a colon how often it was compacted
	times, _ := strconv.Atoi(window[strings.LastIndexByte(window, ':')+1:])
	id.Compacted = times > 0
	return id
}

// session gives the id as the client wrote it, what named it, and whether a previous response would come before it.
func (r *Request) session() (id, by string, weak bool) {
	if r.Path != "" {
		return r.Path, "path", false
	}
	for _, name := range headers {
		if id := r.header(name); id != "" {
			return id, strings.ToLower(name), false
		}
	}
	if id := r.text("conversation"); id != "" {
		return id, "conversation", false
	}
	if id := r.text("conversation.id"); id != "" {
		return id, "conversation", false
	}
	for _, name := range members {
		if id := r.text(name); id != "" {
			return id, name, true
		}
	}
	if id := sessionOf(r.text("metadata.user_id")); id != "" {
		return id, "metadata.user_id", true
	}
	for _, name := range lesser {
		if id := r.header(name); id != "" {
			return id, strings.ToLower(name), true
		}
	}
	for _, name := range [...]string{"litellm_session_id", "prompt_cache_key"} {
		if id := r.text(name); id != "" {
			return id, name, true
		}
	}
	return "", "", true
}

// sessionOf finds the session in what Claude Code writes as its user: JSON, or a text with a mark in it.
func sessionOf(user string) string {
	var in struct {
		Session string `json:"session_id"`
	}
	if json.Unmarshal([]byte(user), &in) == nil {
		return strings.TrimSpace(in.Session)
	}
	if _, id, ok := strings.Cut(user, "_session_"); ok {
		return strings.TrimSpace(id)
	}
	return ""
}

func (r *Request) agent() string {
	for _, name := range [...]string{"X-Mneme-Agent", "X-Claude-Code-Agent-Id"} {
		if id := r.header(name); id != "" {
			return named(id, ident.CheckID)
		}
	}
	session := r.header("Session-Id") + r.header("Session_id")
	for _, name := range [...]string{"Thread-Id", "Thread_id"} {
		if id := r.header(name); id != "" && id != session {
			return named(id, ident.CheckID)
		}
	}
	return ""
}

func (r *Request) class() string {
	class := strings.ToLower(r.header("X-Claude-Code-Request-Class"))
	switch strings.ToLower(r.header("X-Claude-Code-Compaction")) {
	case "", "0", "false":
	default:
		return "compaction"
	}
	var turn struct {
		Kind string `json:"request_kind"`
	}
	if json.Unmarshal([]byte(r.codex("X-Codex-Turn-Metadata")), &turn) == nil && turn.Kind == "compaction" {
		return "compaction"
	}
	return class
}

// codex is a header of Codex's, which it also writes into the body.
func (r *Request) codex(name string) string {
	return cmp.Or(r.header(name), r.text("client_metadata."+strings.ToLower(name)))
}

func (r *Request) header(name string) string {
	if r.Header == nil {
		return ""
	}
	return strings.TrimSpace(r.Header(name))
}

// text is a member of the body that is a string; a name with a point is one in an object.
func (r *Request) text(name string) (s string) {
	if r.Body == nil {
		return ""
	}
	outer, inner, nested := strings.Cut(name, ".")
	raw := r.Body(outer)
	if nested {
		var o map[string]json.RawMessage
		if json.Unmarshal(raw, &o) != nil {
			return ""
		}
		raw = o[inner]
	}
	_ = json.Unmarshal(raw, &s) // Of another type, it names nothing.
	return strings.TrimSpace(s)
}

// named is an id under which something can be stored: the client's own where it passes a check, else a hash of it.
func named(id string, check func(field, id string) error) string {
	if id == "" || check("", id) == nil {
		return id
	}
	return ident.Hashed(id)
}

// Passing says why a request's exchange is never stored, whatever its reply; empty: it may be.
func Passing(r Request) string {
	if slices.Contains([]string{"auxiliary", "compaction"}, r.class()) {
		return "request_class"
	}
	for _, name := range [...]string{"max_tokens", "max_completion_tokens"} {
		if n, ok := r.number(name); ok && n <= 1 {
			return "max_tokens"
		}
	}
	if n, ok := r.number("n"); ok && n > 1 {
		return "n"
	}
	if r.Body != nil && string(r.Body("background")) == "true" {
		return "background"
	}
	return ""
}

func (r *Request) number(name string) (float64, bool) {
	if r.Body == nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(r.Body(name)), 64)
	return n, err == nil
}
