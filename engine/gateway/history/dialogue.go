// Package history stores what clients say to a model's API, as turns of sessions. These clients know nothing about
// turns: each call sends the whole history again, or what the client still has of it. Begin determines what part of a
// request is already stored and what is new. Commit stores the new part together with the reply, once the reply is
// complete.
//
// Matching a request writes nothing. The header of each stored message contains a hash of the message, and the hashes
// of a session's messages that are not removed form the chain that a request is compared with (see package align). So
// turns that were posted, rewound, forked or imported are part of the chain as well.
//
// A turn extends from its first new message to the first reply that calls no tools. Until then clients send the open
// part again with each call, so it is kept only in memory, for clients that trim within a loop of tool calls. For
// clients that send only new messages, after the id of a response, it is stored for a day (response.go).
package history

import (
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/lru"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Service matches and stores exchanges with models.
type Service struct {
	db        *records.DB
	projects  *project.Service
	sessions  *session.Service
	histories *lru.Map[*history]
	loops     *lru.Map[*loops]
	requests  *lru.Map[elements]
	items     *lru.Map[*items]
	queues    *admission.Lines // for commits to the same session
}

// New returns a Service. The cache of sessions uses at most limit bytes, and so do the caches of open turns, of requests
// and of items. If limit is 0, it is 64 MiB.
func New(db *records.DB, projects *project.Service, sessions *session.Service, limit int) *Service {
	return &Service{db: db, projects: projects, sessions: sessions, queues: admission.NewLines(maxWaiting),
		histories: lru.New(limit, func() *history { return new(history) }),
		loops:     lru.New(limit, func() *loops { return new(loops) }),
		requests:  lru.New(limit, func() elements { return nil }),
		items: lru.New(limit, func() *items {
			return &items{byID: map[string]json.RawMessage{}, read: map[ident.Incarnation]uint64{}}
		})}
}

// Ask is a request for a model's reply, as far as it is needed to find what is new.
type Ask struct {
	Namespace []string // of a new session, and of its memories; nil if it has none
	Session   string   // as returned by align.Identify; empty if only Previous identifies it
	Agent     string   // whose chain it is, and the delegation of the stored messages; empty for the main agent
	Format    chat.Format
	Kind      string // distinguishes the requests of different programs; empty if all are from one
	Tools     bool   // the request has tools
	// Messages are the elements of the request's messages or input, as the client sent them, including system messages.
	Messages []json.RawMessage
	// Delta says that Messages are only the new ones. A known Previous implies it, unless Messages turn out to include the
	// history.
	Delta bool
	// Resend says that the client always sends its history. Otherwise a single question that matches nothing continues the
	// session.
	Resend   bool
	Previous string // the id of the provider's response that the request continues, or empty
	Weak     bool   // Previous takes precedence over Session; see align.Identity
	// Body returns a hash of the request's body. Requests with equal bodies are the same request, sent again. It is rarely
	// called before the reply has arrived. If nil, all requests count as the same.
	Body    func() [32]byte
	Retries int // how often the client says it has sent the request before
	// Compacts says that the client summarises its history itself and does not mix conversations in a session. Compacted
	// says that this request follows such a summary. What follows a summary stays in the session, unless Windowed says that
	// windows are made from the stored history. Then all summarised messages would come back, so the request goes to a
	// fork.
	Compacts, Compacted, Windowed bool
	// Holds says that answers may contain calls that the client never sees. An open turn with such calls is stored, because
	// the client cannot send all of it again.
	Holds bool
}

// resends reports whether the client sends its history and leaves it to Mneme to find the changes.
func (a *Ask) resends() bool { return !a.Compacts && !a.Delta }

func (a *Ask) body() (hash [32]byte) {
	if a.Body != nil {
		hash = a.Body()
	}
	return hash
}

// Exchange is a request whose reply is awaited.
type Exchange struct {
	// Session is the session in which the request was found and from which its window is made: the requested session or
	// a fork of it. It may not exist yet.
	Session string
	// Fork is the session that will store the exchange if that is a new copy of Session, up to AsOf; otherwise it is
	// empty.
	Fork string
	// Delegation is the viewer of the request's window; empty for the main agent.
	Delegation string
	// Match says how the request relates to the history. Keep counts messages of the history. New and Front count parsed
	// messages of the request, without system messages.
	Match align.Match
	// Revision is the session's revision when the request began, or 0 if the session does not exist yet.
	Revision uint64
	// AsOf is the turn that the stored history ends with for this request. If nil, all of it is kept. The window of a
	// request that goes back is made as of that turn.
	AsOf *uint32
	// Project is the request's project. Head is Session's head when Begin read it, or nil if the session does not exist
	// yet.
	Project *project.Record
	Head    *session.Head
	// Namespace is where the session's memories are; nil means all of the project.
	Namespace []string
	// Unstored says why the exchange will not be stored, whatever the reply is. It is empty if it will be.
	Unstored string
	// References are the items that the request refers to by their ids and that are stored.
	References map[string]Reference

	ask   Ask
	said  saying
	first found // as Begin found it
	// resumed is the open turn that the request continues, by a response's id or because it sends only new messages, or
	// nil.
	resumed *loop
	base    string            // The request may continue open turns of this session and all its forks.
	forks   *session.Forks    // of base, as they were read last
	side    place             // the session of base's side calls; its line is not read
	taken   int               // forks up to this number exist
	given   map[string]uint32 // the turn numbers that each session had assigned when the request began
	// unresolved says that the request refers to items that are not stored.
	unresolved bool
}

// Pending returns the messages after the stored history up to AsOf that are not stored yet: the input of the request's
// window. They are as the client sent them now, preceded by those that it sent before if the client sends only new
// messages.
//
// Replies within a loop of tool calls name their decisions, as messages of turns do.
func (x *Exchange) Pending() []*transcript.Element { return x.first.shown.pending }

// keptRead bounds the pending messages that stay parsed while the reply is awaited, in bytes as they were sent.
const keptRead = 4 << 10

// Release frees what only making the request's window needs. It is called once the window is made, because a reply may
// take minutes. Commit parses long pending messages again.
func (x *Exchange) Release() {
	x.first.shown.pending = nil
	size := 0
	for _, e := range x.first.pending {
		size += len(e.Raw)
	}
	if size > keptRead {
		x.first.pending = transcript.Unread(x.first.pending)
	}
}

// Front returns the client's messages that are not part of the conversation. They are never stored.
func (x *Exchange) Front() (out []*transcript.Element) {
	if x.first.aligned == nil {
		return x.said.cut(0, x.Match.Front)
	}
	for _, i := range x.first.aligned.Own {
		out = append(out, x.said.cut(i, i+1)...)
	}
	return out
}

// Reply is a complete reply of a model.
type Reply struct {
	Messages []json.RawMessage // as the client will send them again; see wire.Reply
	// Hidden are the messages before them that the client never saw: calls of tools that Mneme ran, and their results.
	Hidden []json.RawMessage
	Stop   string // why the reply ended, as the provider says it
	// ResponseID is the Previous of later requests that continue the reply. It is empty if none can, because the provider
	// does not keep the reply.
	ResponseID string
	DecisionID string // of the window that the reply was made from; empty if there was none
}

// Stored says how an exchange was stored.
type Stored struct {
	Session  string
	Turn     uint32 // the exchange's turn; 0 if it is not stored, or not yet
	Revision uint64 // of the session after the commit
	// Open says that the reply calls tools, so the turn continues with the client's next request.
	Open   bool
	Reason string // why nothing was stored; empty if Turn or Open is set
}
