package mneme

// Version is the ABI that this SDK speaks, major<<16 | minor.
const Version = 1<<16 | 2

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
