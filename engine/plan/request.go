// Package plan defines the input of a policy (Request, a table of message headers) and its output (a list of Ops). It
// also implements the two duties of the engine: Apply executes the ops, and Law.Check checks that a window obeys the
// rules that no policy may break.
//
// The types correspond to the policy ABI (docs/ABI.md) without its byte layout; package hostapi encodes and decodes
// them.
//
// An atom is a group of messages that a provider accepts only together, such as a call and its results. Ops that remove
// messages name whole atoms, and the validity check makes sure that no atom lost a part.
package plan

// Role of a record, as in the ABI.
type Role uint8

const (
	RoleUser      Role = 1
	RoleAssistant Role = 2
	RoleTool      Role = 3
	RoleSystem    Role = 4 // a summary, a memory or a marker; clients cannot store one
)

// Kind of a record, as in the ABI.
type Kind uint8

const (
	KindChat    Kind = 0
	KindCall    Kind = 1 // an assistant message with tool calls
	KindResult  Kind = 2
	KindA2A     Kind = 3
	KindSummary Kind = 4
	KindMemory  Kind = 5
	KindMarker  Kind = 6

	// Kinds of the memory hooks, all with RoleSystem.
	KindCandidate Kind = 7 // a memory that is about to be written
	KindAnswer    Kind = 8 // what the model answered to an ASK
	KindQuery     Kind = 9 // what a client recalls by
)

// Flags of a record, as in the ABI.
type Flags uint16

const (
	FlagPending     Flags = 1
	FlagOpenCall    Flags = 2
	FlagCompressed  Flags = 4
	FlagErrorResult Flags = 8
	FlagImage       Flags = 16
	FlagMandatory   Flags = 32
	FlagTagsLeftOut Flags = 64
	FlagPinned      Flags = 128 // an earlier step of this window pinned the atom
	FlagThinking    Flags = 256
	FlagAudio       Flags = 512
	FlagDocument    Flags = 1024
	FlagContext     Flags = 2048 // remembered before, and shown only as context
)

// Record is one message as a policy sees it. It is identified by its index in Request.Records. Strings are ids into
// Request.Strings, where 0 is the empty string.
type Record struct {
	Seq              uint64 // number of the message in its session, from 1; 0 for system-class records
	Created          int64  // ms since 1970
	Turn             uint32
	Place            uint32 // position of the turn among the living ones, from 1; 0 for system-class records
	Tokens           uint32 // in the requested rendering
	CompressedTokens uint32 // as an earlier question; 0 if it cannot be one
	TextBytes        uint32
	Atom             uint32 // dense id, equal for all records of an atom
	Delegation       uint32 // dense id; 0 means none
	Agent            uint32 // string id
	Tool             uint32 // string id
	TagsAt           uint32 // index of the first tag in Request.Tags
	TagCount         uint32
	Flags            Flags
	Role             Role
	Kind             Kind
}

// Request is the input of one policy call: parameters, and records in window order, oldest first.
type Request struct {
	Records []Record
	Strings []string // Strings[0] is ""
	Tags    []uint32 // string ids; records refer to ranges of it
	Config  []ConfigEntry

	BudgetMessages   uint32 // 0 means no limit
	BudgetTokens     uint32 // 0 means no limit
	ViewerDelegation uint32 // dense id; 0 means main
	ViewerAgent      uint32 // string id
	Now              int64  // ms since 1970
	Seed             uint64
	NewestTurn       uint32
	OlderExist       bool // the session has messages older than the table
	SummaryCovers    uint64
	SummaryTokens    uint32
	OlderTokens      uint64 // of the session's messages that are older than the table
	MemoryBudget     uint32 // for memories; 0 means no limit, or that none are requested

	Hook   Hook    // 0 means HookAssemble
	Origin Origin  // who writes the candidate; 0 if there is none
	Extra  []Extra // of the memory hooks: one for each record; nil in assemble
}

// ConfigEntry is one flattened, validated setting of a policy. Value is an int64, float64, bool or string.
type ConfigEntry struct {
	Key   string
	Value any
}
