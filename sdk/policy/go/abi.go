package mneme

// Version is the ABI that this SDK speaks, major<<16 | minor.
const Version = 1<<16 | 3

const (
	requestMagic = 'M' | 'N'<<8 | 'M'<<16 | '1'<<24
	planMagic    = 'M' | 'N'<<8 | 'P'<<16 | '1'<<24
	majorShift   = 16
)

// Role is the author of a record.
type Role uint8

// Roles. System-class records are summaries, memories and markers; they count only against the token budget.
const (
	User      Role = 1
	Assistant Role = 2
	Tool      Role = 3
	System    Role = 4
)

// Kind is the type of a record.
type Kind uint8

// Kinds. A Call is an assistant message with tool calls; its Results share its atom.
const (
	Chat    Kind = 0
	Call    Kind = 1
	Result  Kind = 2
	A2A     Kind = 3
	Summary Kind = 4
	Memory  Kind = 5
	Marker  Kind = 6

	// Kinds of the memory hooks, all with the role System.
	Candidate Kind = 7 // a memory that is about to be written
	Answer    Kind = 8 // what the model answered to an Ask
	Query     Kind = 9 // what a client recalls by
)

// Flags is a set of properties of a record.
type Flags uint16

// Flags of a record. The window must contain the atom of a Mandatory record, whatever the plan says; its tool results
// may be truncated, stubbed or replaced.
const (
	Pending     Flags = 1
	OpenCall    Flags = 2
	Compressed  Flags = 4
	ErrorResult Flags = 8
	Image       Flags = 16
	Mandatory   Flags = 32
	TagsLeftOut Flags = 64
	Pinned      Flags = 128 // by KEEP in an earlier step
	Thinking    Flags = 256
	Audio       Flags = 512
	Document    Flags = 1024
	Context     Flags = 2048 // remembered before, and shown only as context
)

// Has reports whether any flag of set is set.
func (f Flags) Has(set Flags) bool { return f&set != 0 }

// OpCode is what the host does to a range of records.
type OpCode uint8

// Ops of a plan. The methods of Plan write them.
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

	OpRefuse OpCode = 11
	OpPatch  OpCode = 12
	OpMerge  OpCode = 13
	OpStore  OpCode = 14
	OpForget OpCode = 15
	OpAsk    OpCode = 16
	OpRank   OpCode = 17
	OpMask   OpCode = 18
)

// Hook is a moment at which a policy decides.
type Hook uint32

// Hooks. Only Assemble makes a window; the plans of all others change memories.
const (
	Assemble Hook = 1 // what a window shows
	Admit    Hook = 2 // whether and how a memory is written
	Remember Hook = 3 // what is remembered of a session
	Recall   Hook = 4 // which memories a query finds
	Retain   Hook = 5 // which memories are kept
)

// Origin says who writes a candidate.
type Origin uint32

// Origins. 0 means that there is no candidate.
const (
	FromAPI      Origin = 1
	FromTool     Origin = 2
	FromFile     Origin = 3
	FromRemember Origin = 4
)

// Trust orders memories and messages by how far their words can be trusted. 0 means unknown.
type Trust uint8

// Levels of trust.
const (
	TrustTool     Trust = 1
	TrustModel    Trust = 2
	TrustUser     Trust = 3
	TrustOperator Trust = 4
)

// Category of a memory.
type Category uint8

// Categories. 0 means none, as of messages.
const (
	Core         Category = 1
	Daily        Category = 2
	Conversation Category = 3
)

// ExtraFlags is a set of properties of a record of a memory hook.
type ExtraFlags uint16

// Flags of the extra table. Equal, Covers, Covered and EqualDigits compare a memory with the candidate.
const (
	CandidateKey ExtraFlags = 1   // it has the candidate's key
	PinnedMemory ExtraFlags = 2   // no policy may change it
	Equal        ExtraFlags = 4   // it says the same
	Covers       ExtraFlags = 8   // it says what the candidate says, and more
	Covered      ExtraFlags = 16  // the candidate says what it says, and more
	EqualDigits  ExtraFlags = 32  // equal but for digits
	Shown        ExtraFlags = 64  // a window of this session showed it
	ClientKey    ExtraFlags = 128 // the client chose the key
	Pasted       ExtraFlags = 256 // the message has pasted parts
)

// Has reports whether any flag of set is set.
func (f ExtraFlags) Has(set ExtraFlags) bool { return f&set != 0 }

// KeepStored is the argument of a MERGE that leaves the stored memory as it is. Plan.Merge sets it.
const KeepStored = 1

// Limits of an Ask: the bytes of its prompt, and the tokens of its answer.
const (
	MaxPrompt = 8 << 10
	MaxAnswer = 1024
)

// EarlierQuestion is the only template of COMPRESS, and SizeStub that of STUB. REPLACE has template 0 for a text and
// ReplaceArguments for the arguments of a call.
const (
	EarlierQuestion  uint8 = 1
	SizeStub         uint8 = 1
	ReplaceArguments uint8 = 2
)

// Parts is a set of kinds of content other than text, which STRIP removes.
type Parts uint32

// Parts of a message.
const (
	ImageParts    Parts = 1
	AudioParts    Parts = 2
	DocumentParts Parts = 4 // including files
	ThinkingParts Parts = 8 // including reasoning
)

// MaxScore is the score of a text that contains all words of a query many times.
const MaxScore = 1_000_000

// StoredOnly is the argument of a SUMMARISE that does not ask to extend the summary. Plan.ShowSummary sets it.
const StoredOnly = 1

// MarkerText is the text that says that earlier messages were left out. A ledger takes the place of an inserted marker.
const MarkerText = "[earlier messages left out]"

// MaxLedger is the maximum number of tokens of a ledger's text.
const MaxLedger = 4000

// QuestionOverhead is how many tokens an earlier question may cost beside the text that Plan.CompressTo leaves of it.
const QuestionOverhead = 12

// Level is the level of a log line.
type Level uint8

// Levels of a log line.
const (
	Debug Level = 0
	Info  Level = 1
	Warn  Level = 2
	Fault Level = 3
)

// MaxReason is the maximum length of a reason, in bytes.
const MaxReason = 200

// Error is an error with a constant text, so that returning one does not allocate.
type Error string

func (e Error) Error() string { return string(e) }
