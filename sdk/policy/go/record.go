package mneme

import "unsafe"

// Record is one message as a policy sees it: the ABI's 72 bytes, viewed in place. Do not change it. Agent and Tool are
// string ids for Request.String; tags are read with Request.Tag and Request.HasTag.
type Record struct {
	Index            uint32
	Turn             uint32 // 0 for system-class records
	Seq              uint64 // counts the session's messages from 1; 0 for system-class records
	Role             Role
	Kind             Kind
	Flags            Flags
	Tokens           uint32 // of the rendering asked for
	CompressedTokens uint32 // as an earlier question; 0 where there is none
	TextBytes        uint32
	Atom             uint32 // equal for all records of an atom, which stand together
	Delegation       uint32 // 0: none
	Agent            uint32
	Tool             uint32
	tagsAt           uint32
	TagCount         uint32
	Created          int64  // ms since 1970
	Place            uint32 // of Turn among the turns that live, from 1; 0 for system-class records
	_                uint32
}

const recordSize = 72

// preamble is the request's head, viewed in place.
type preamble struct {
	magic, abi                               uint32
	size, recordSize, recordCount, recordsAt uint32
	configAt, configCount                    uint32
	stringsAt, stringsCount                  uint32

	BudgetMessages   uint32 // roles User, Assistant and Tool that are not Compressed; 0: no bound
	BudgetTokens     uint32 // all records; 0: no bound
	ViewerDelegation uint32 // compares with Record.Delegation; 0: the main agent
	ViewerAgent      uint32 // string id
	Now              int64  // ms since 1970
	Seed             uint64
	NewestTurn       uint32 // the pending turn's number where there is one
	flags            uint32
	SummaryCovers    uint64 // messages with Seq up to this are in the stored summary; 0: none
	SummaryTokens    uint32
	_                uint32
	OlderTokens      uint64 // of the session's messages that are older than the table
	MemoryBudget     uint32 // what recalled memories may take; 0: none are asked for, or no bound
	_                uint32
}

const (
	preambleSize = 112
	olderExist   = 1
)

type configEntry struct {
	keyAt, keyLen, kind, textLen uint32
	value                        uint64
}

const configEntrySize = 24

type opRecord struct {
	code, template      uint8
	_                   uint16
	first, last         uint32
	textAt, textLen     uint32
	reasonAt, reasonLen uint32
	argument            uint32
}

const (
	planHeaderSize = 16
	opSize         = 32
)

// The layouts are the ABI's or the package does not compile.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(Record{})-recordSize]
	_ = [1]struct{}{}[unsafe.Sizeof(preamble{})-preambleSize]
	_ = [1]struct{}{}[unsafe.Sizeof(configEntry{})-configEntrySize]
	_ = [1]struct{}{}[unsafe.Sizeof(opRecord{})-opSize]
)
