package plan

// OpCode names what the engine does to a range of records.
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
)

// ReplaceArguments is the template of a REPLACE that changes the arguments of a call instead of a text.
const ReplaceArguments uint8 = 2

// Op is one instruction of a plan over the records First..Last, inclusive. Records that no op names are kept.
type Op struct {
	Code     OpCode
	Template uint8
	First    uint32
	Last     uint32
	Argument uint32 // TRUNCATE: tokens; SUMMARISE: StoredOnly or 0; STRIP: Parts; REPLACE of arguments: which call
	Text     string // REPLACE, INSERT
	Reason   string // "code" or "code: free words"
}

// Status says how one policy call ended, in the words of the HTTP contract.
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

// Statuses are all that there are.
var Statuses = []Status{StatusOK, StatusFuelExhausted, StatusTrap, StatusDepth, StatusMemory, StatusBadPlan,
	StatusHostQuota, StatusTimeout, StatusAuthorError, StatusUnavailable, StatusFallback}

// Digest is the SHA-256 of a module's bytes as uploaded.
type Digest [32]byte

// Texts answers the host functions of one call: the text of a record and token counts in the request's tokenizer.
type Texts interface {
	// Text returns the text of a record as it stands before this step. The caller must not change it.
	Text(record int) ([]byte, error)
	// Tokens counts the tokens of a text. Between parts of it, it asks whether to stop, and answers anything then.
	Tokens(text []byte, stop func() bool) int
	// Call returns the name and the arguments of a record's call as they stand before this step, false if there is
	// none. Calls count from 0; the call that a result answers is 0.
	Call(record, call int) (Called, bool, error)
	// Score says how well a text answers a query, from 0 to MaxScore.
	Score(text, query []byte) int
}

// Called is what a call says: the name of its tool, and the arguments as the model wrote them.
type Called struct{ Name, Arguments string }

// MaxScore is the score of a text that holds all words of a query, over and over.
const MaxScore = 1_000_000

// Call is everything that a policy call depends on. The same call always has the same outcome, except for time-outs.
type Call struct {
	Tenant  string // instances are never shared between tenants
	Module  Digest
	Request *Request
	Texts   Texts
	// Apply carries out the plan. It is a part of the call: it runs in the call's place and on its fuel and time. What
	// it answers ends the call: a *BadPlanError as bad_plan, an error of the meter as the meter says. Nil: the plan is
	// only read.
	Apply func(ops []Op, meter Meter) error
	// Again says that the same call ended within its time before. It gets more time, because the machine may be busier.
	Again bool
}

// Outcome is what a policy call gave. Ops are valid only with StatusOK; Detail is the author's message or the
// host's words on what went wrong.
type Outcome struct {
	Status Status
	Detail string
	Ops    []Op
	Fuel   uint64
	Log    []LogLine
}

// LogLine is one line that a policy wrote with the log host function.
type LogLine struct {
	Level   uint8 // 0 debug, 1 info, 2 warn, 3 error
	Message string
}
