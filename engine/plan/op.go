package plan

// OpCode is what the engine does to a range of records.
type OpCode uint8

const (
	OpDrop      OpCode = 1
	OpCompress  OpCode = 2
	OpTruncate  OpCode = 3
	OpStub      OpCode = 4
	OpReplace   OpCode = 5
	OpInsert    OpCode = 6
	OpSummarise OpCode = 7
	OpKeep      OpCode = 8
	OpStrip     OpCode = 9
	OpLedger    OpCode = 10

	// Ops of the memory hooks.
	OpRefuse OpCode = 11
	OpPatch  OpCode = 12
	OpMerge  OpCode = 13
	OpStore  OpCode = 14
	OpForget OpCode = 15
	OpAsk    OpCode = 16
	OpRank   OpCode = 17

	OpMask OpCode = 18 // of windows
)

// ReplaceArguments is the template of a REPLACE that changes the arguments of a call instead of a text.
const ReplaceArguments uint8 = 2

// Op is one instruction of a plan for the records First to Last, inclusive. Records that no op names are kept.
type Op struct {
	Code     OpCode
	Template uint8
	First    uint32
	Last     uint32
	Argument uint32 // TRUNCATE, COMPRESS, LEDGER, ASK: tokens; SUMMARISE: StoredOnly or 0; STRIP: Parts; REPLACE of arguments: which call; MERGE: KeepStored or 0; RANK: a score
	Text     string // REPLACE, INSERT, MASK, PATCH, MERGE, STORE, ASK
	Reason   string // "code" or "code: free text"
}

// Status is how one policy call ended, as in the HTTP API.
type Status string

const (
	StatusOK            Status = "ok"
	StatusFuelExhausted Status = "fuel_exhausted"
	StatusTrap          Status = "trap"
	StatusDepth         Status = "depth"
	StatusMemory        Status = "memory"
	StatusBadPlan       Status = "bad_plan"
	StatusHostQuota     Status = "host_quota"
	StatusTimeout       Status = "timeout"
	StatusAuthorError   Status = "author_error"
	StatusUnavailable   Status = "unavailable"
	StatusFallback      Status = "fallback"
)

// Statuses lists all statuses.
var Statuses = []Status{StatusOK, StatusFuelExhausted, StatusTrap, StatusDepth, StatusMemory, StatusBadPlan,
	StatusHostQuota, StatusTimeout, StatusAuthorError, StatusUnavailable, StatusFallback}

// Digest is the SHA-256 of a module's bytes as uploaded.
type Digest [32]byte

// Texts implements the host functions of one call: the text of a record, and token counts with the request's tokenizer.
type Texts interface {
	// Text returns the text of a record before this step. The caller must not change it.
	Text(record int) ([]byte, error)
	// Tokens counts the tokens of a text. While counting, it calls stop; if stop returns true, the result is undefined.
	Tokens(text []byte, stop func() bool) int
	// Call returns the name and the arguments of a record's call before this step; false if there is none. Calls count
	// from 0; call 0 of a result is the call that it answers.
	Call(record, call int) (Called, bool, error)
	// Score returns how well a text matches a query, from 0 to MaxScore.
	Score(text, query []byte) int
	// JSON returns the text in which the host function json looks: an answer, or the spec of a candidate or a memory;
	// false for other records. The caller must not change it.
	JSON(record int) ([]byte, bool, error)
}

// Called is the content of a call: the name of its tool, and the arguments as the model wrote them.
type Called struct{ Name, Arguments string }

// MaxScore is the score of a text that contains all words of a query many times.
const MaxScore = 1_000_000

// Call is everything that a policy call depends on. The same call always has the same outcome, except for time-outs.
type Call struct {
	Tenant  string // instances are never shared between tenants
	Module  Digest
	Request *Request
	Texts   Texts
	// Apply executes the plan. It is part of the call, and uses the call's fuel and time. Its error ends the call: a
	// *BadPlanError as bad_plan, an error of the meter as the meter says. If Apply is nil, the plan is only parsed.
	Apply func(ops []Op, meter Meter) error
	// Again means that the same call succeeded before. It gets more time, because the machine may be busier.
	Again bool
}

// Outcome is the result of a policy call. Ops are valid only with StatusOK. Detail is the author's message, or the
// host's description of what went wrong.
type Outcome struct {
	Status Status
	Detail string
	Ops    []Op
	Fuel   uint64
	Log    []LogLine
}

// LogLine is one line that a policy wrote with the host function log.
type LogLine struct {
	Level   uint8 // 0 debug, 1 info, 2 warn, 3 error
	Message string
}
