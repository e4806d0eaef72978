package align

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// Request is the part of a request that identifies its session.
type Request struct {
	Path   string                     // the session in the path, if any
	Header func(name string) string   // the value of a header
	Body   func(member string) []byte // a top-level member of the body, as JSON; nil if there is none
	// Fields are members of the body that the project accepts as names of sessions besides the usual ones. See SharedFields.
	Fields []string
}

// SharedFields are members that an application may set to the same value for all of its users. They name a session only
// in projects whose settings list them. A member of metadata may be listed as well, as "metadata.NAME".
var SharedFields = []string{"prompt_cache_key", "user", "safety_identifier"}

// Identity says which session and agent a request belongs to.
type Identity struct {
	Session string // a valid session id; empty if the request names none
	By      string // the header or member that named the session, or "path"
	Agent   string // the agent within the session; empty for the main agent
	// Previous is the response that the request continues. If Weak is set and the response is known, it takes precedence
	// over Session.
	Previous string
	Weak     bool
	// Class is the class that the client gives the request. Claude Code sends main, subagent, workflow, compaction or
	// auxiliary; Codex sends compaction.
	Class string
	// Compacted reports whether the client has replaced part of its history by a summary. Codex counts its summaries.
	Compacted bool
}

// These headers and members of the body name sessions; the first one present counts. A name with a point is a member of
// an object. Members that name a person or a prompt are not among them: see SharedFields.
var (
	headers = []string{"X-Mneme-Session", "X-Claude-Code-Session-Id", "Session-Id", "Session_id", "X-Session-Id",
		"X-Session-Affinity"}
	members = []string{"metadata.session_id", "metadata.conversation_id", "metadata.thread_id"}
	// lesser are the headers of other gateways and applications.
	lesser = []string{"Agent-Session-Id", "Helicone-Session-Id", "X-Sm-Conversation-Id", "X-Litellm-Session-Id",
		"X-OpenWebUI-Chat-Id"}
)

// Identify returns the session and the agent that a request belongs to.
func Identify(r Request) Identity {
	id := Identity{Previous: r.text("previous_response_id"), Class: r.class()}
	id.Session, id.By, id.Weak = r.session()
	id.Weak = id.Weak && id.Previous != ""
	id.Session = named(id.Session, ident.CheckID)
	id.Agent = r.agent()
	window := r.codex("X-Codex-Window-Id") // the thread, a colon, and the number of compactions
	times, _ := strconv.Atoi(window[strings.LastIndexByte(window, ':')+1:])
	id.Compacted = times > 0
	return id
}

// session returns the id as the client wrote it, what named it, and whether a previous response takes precedence.
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
	for _, name := range append([]string{"litellm_session_id"}, r.Fields...) {
		if id := r.text(name); id != "" {
			return id, name, true
		}
	}
	return "", "", true
}

// sessionOf returns the session in the user_id of Claude Code: a member of a JSON object, or the part of a text after a
// marker.
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

// codex returns a header of Codex, which Codex also writes into the body.
func (r *Request) codex(name string) string {
	return cmp.Or(r.header(name), r.text("client_metadata."+strings.ToLower(name)))
}

func (r *Request) header(name string) string {
	if r.Header == nil {
		return ""
	}
	value := strings.TrimSpace(r.Header(name))
	if !strings.HasPrefix(name, "X-Mneme-") {
		return value
	}
	id, err := ident.ReadID(name, value) // only Mneme's own headers are percent-encoded
	if err != nil {
		return value
	}
	return id
}

// text returns a member of the body that is a string. A name with a point is a member of an object.
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
	_ = json.Unmarshal(raw, &s) // A value of another type names nothing.
	return strings.TrimSpace(s)
}

// named returns the client's id if it passes the check, or otherwise a hash of it.
func named(id string, check func(field, id string) error) string {
	if id == "" || check("", id) == nil {
		return id
	}
	return ident.Hashed(id)
}

// Passing returns the reason why the exchange of a request is never stored. It is empty if the exchange may be stored.
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
