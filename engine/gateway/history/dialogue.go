// Package history stores what clients of a model's API say, as turns of sessions. Such clients know nothing of turns:
// with each call they send their whole history again, or what of it they still have. Begin finds what of a request is
// stored already and what is new. Commit stores the new part together with the reply, once the reply is whole.
//
// The hard idea is that nothing is written for finding. Each stored message's header holds what the message says as a
// hash, and the hashes of a session's living messages are the chain that a request is held against (see package resent).
// So turns that were posted, rewound, forked or imported belong to the chain as well.
//
// A turn reaches from its first new message to the first reply that calls no tools. Until then clients send the open
// part again with each call, so it is kept in memory alone, for clients that trim within a loop of tool calls. Clients
// that send what is new alone, behind the id of a response, have theirs stored for a day (response.go).
package history

import (
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/lru"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Service finds and stores exchanges with models.
type Service struct {
	db        *records.DB
	projects  *project.Service
	sessions  *session.Service
	histories *lru.Map[*history]
	loops     *lru.Map[*loops]
	requests  *lru.Map[elements]
	queues    *admission.Lines // of those who store in one session
}

// New makes the room. What it remembers of sessions takes at most limit bytes, and so do what it remembers of open
// turns and of requests; 0: 64 MiB.
func New(db *records.DB, projects *project.Service, sessions *session.Service, limit int) *Service {
	return &Service{db: db, projects: projects, sessions: sessions, queues: admission.NewLines(maxWaiting),
		histories: lru.New(limit, func() *history { return new(history) }),
		loops:     lru.New(limit, func() *loops { return new(loops) }),
		requests:  lru.New(limit, func() elements { return nil })}
}

// Ask is a request for a model's reply, as far as it tells what is new.
type Ask struct {
	Session string // as align.Identify gives it; empty where only Previous says it
	Agent   string // whose chain it is, and the delegation of what is stored; empty: the main agent's
	Format  chat.Format
	Kind    string // tells the requests of different programs apart; empty: all are of one
	// Messages are the elements of the request's messages or input, as the client sent them, system messages included.
	Messages []json.RawMessage
	// Delta says that Messages are the new ones alone. A Previous that is known says so too, unless Messages turn out to
	// hold the history all the same.
	Delta    bool
	Previous string // the id of the provider's response that the request goes on from; empty: it names none
	Weak     bool   // Previous says the session before Session does; see align.Identity
	// Body gives a hash of the request's body: equal bodies are the same request, sent again. It is seldom asked for before
	// the reply has come. nil: all requests are the same.
	Body    func() [32]byte
	Retries int // how often the client says that it has sent the request before
	// Compacts says that the client summarises its history by itself and mixes no conversations in a session, and
	// Compacted that it says so of this request. What follows a summary goes on in the session, unless Windowed says that
	// windows are made of the stored history: all that was summarised would come back then, so it goes to a fork.
	Compacts, Compacted, Windowed bool
	// Holds says that answers may have calls that the client never sees. An open turn with such calls is stored, because
	// the client cannot send all of it again.
	Holds bool
}

// resends reports whether the client sends its history and leaves it to Mneme what became of it.
func (a *Ask) resends() bool { return !a.Compacts && !a.Delta }

func (a *Ask) body() (hash [32]byte) {
	if a.Body != nil {
		hash = a.Body()
	}
	return hash
}

// Exchange is a request whose reply is awaited.
type Exchange struct {
	// Session is where the request was found, and whose window it gets: the session that was asked for, or a fork of it.
	// It may be yet to be made.
	Session string
	// Fork is where the exchange will be stored where that is a copy of Session, yet to be made, up to AsOf; else empty.
	Fork string
	// Delegation is the viewer of the request's window; empty: the main agent.
	Delegation string
	// Match says what the request is to the history. Keep counts messages of the history, New and Front those of the
	// request as they are parsed, system messages left out.
	Match align.Match
	// Revision is the session's when the request began; 0 where the session is yet to be made.
	Revision uint64
	// AsOf is the turn that the stored history ends with for this request; nil: all of it stays. Windows of a request
	// that goes back are asked for as of that turn.
	AsOf *uint32
	// Project is the request's, and Head is Session's as Begin found it; nil: the session is yet to be made.
	Project *project.Record
	Head    *session.Head
	// Unstored says why the exchange will not be stored whatever the reply is; empty: it will be.
	Unstored string

	ask   Ask
	said  saying
	first found // as Begin found it
	// resumed is what the request goes on from by a response's id or as one that sends what is new alone; nil: nothing.
	resumed *loop
	base    string            // The request may go on from open turns of this session and of all its forks.
	given   map[string]uint32 // the turns that each session had given numbers to when the request began
}

// Pending is what stands behind the stored history up to AsOf and is not stored yet: input of the request's window. It
// is as the client sent it now, and as it was sent before where the client sends new messages alone.
//
// Replies of a loop of tool calls name their decisions there, as messages of turns do.
func (x *Exchange) Pending() []*transcript.Element { return x.first.shown.pending }

// Front is what the client sent among the messages that is no part of the conversation. It is never stored.
func (x *Exchange) Front() (out []*transcript.Element) {
	if x.first.aligned == nil {
		return x.said.cut(0, x.Match.Front)
	}
	for _, i := range x.first.aligned.Own {
		out = append(out, x.said.cut(i, i+1)...)
	}
	return out
}

// Reply is a model's reply that came whole.
type Reply struct {
	Messages []json.RawMessage // as the client will send them again; see wire.Reply
	// Hidden are messages in front of them that the client never saw: calls of tools that ran on the way, and results.
	Hidden []json.RawMessage
	Stop   string // why the reply ended, in the provider's word
	// ResponseID is what later requests name as Previous to go on from the reply; empty: none can, because the provider
	// does not keep it.
	ResponseID string
	DecisionID string // of the window that the reply was made from; empty: there was none
}

// Stored says what became of an exchange.
type Stored struct {
	Session  string
	Turn     uint32 // that the exchange was stored as; 0: it was not, or not yet
	Revision uint64 // of the session behind it
	// Open says that the reply calls tools, so that the turn goes on with the client's next request.
	Open   bool
	Reason string // why nothing was stored; empty where Turn or Open say that all went well
}
