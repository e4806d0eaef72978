package mneme

import "unsafe"

// Record is one message as a policy sees it: the ABI's 72 bytes, viewed in place. Do not change it. Agent and Tool are
// string ids for Request.String; read tags with Request.Tag and Request.HasTag.
type Record struct {
	Index            uint32
	Turn             uint32 // 0 for system-class records
	Seq              uint64 // number of the message in its session, from 1; 0 for system-class records
	Role             Role
	Kind             Kind
	Flags            Flags
	Tokens           uint32 // in the requested rendering
	CompressedTokens uint32 // as an earlier question; 0 if it cannot be one
	TextBytes        uint32
	Atom             uint32 // equal for all records of an atom, which are adjacent
	Delegation       uint32 // 0 means none
	Agent            uint32
	Tool             uint32
	tagsAt           uint32
	TagCount         uint32
	Created          int64  // ms since 1970
	Place            uint32 // position of Turn among the living turns, from 1; 0 for system-class records
	_                uint32
}

const recordSize = 72

// preamble is the request's preamble, viewed in place.
type preamble struct {
	magic, abi                               uint32
	size, recordSize, recordCount, recordsAt uint32
	configAt, configCount                    uint32
	stringsAt, stringsCount                  uint32

	BudgetMessages   uint32 // for records with the roles User, Assistant and Tool that are not Compressed; 0 means no limit
	BudgetTokens     uint32 // for all records; 0 means no limit
	ViewerDelegation uint32 // compare with Record.Delegation; 0 means the main agent
	ViewerAgent      uint32 // string id
	Now              int64  // ms since 1970
	Seed             uint64
	NewestTurn       uint32 // the number of the pending turn, if there is one
	flags            uint32
	SummaryCovers    uint64 // the stored summary covers messages with Seq up to this; 0 if there is none
	SummaryTokens    uint32
	_                uint32
	OlderTokens      uint64 // of the session's messages that are older than the table
	MemoryBudget     uint32 // for recalled memories; 0 means that none are requested, or no limit
	_                uint32
	Hook             Hook
	Origin           Origin // who writes the candidate; 0 if there is none
	extraAt          uint32
	extraSize        uint32
}

// Extra is what a policy of a memory hook learns about a record besides Record: the ABI's 64 bytes, viewed in place. Do
// not change it. Key, Namespace and Session are string ids for Request.String.
type Extra struct {
	Key          uint32 // 0 for messages
	Namespace    uint32 // the namespace as JSON
	Category     Category
	Trust        Trust
	Flags        ExtraFlags
	Score        uint32 // 0 to MaxScore: of a hit; of a memory, how alike it is to the candidate or to the nearest message
	Occurred     int64  // ms since 1970, like all times; 0 means none
	Expires      int64
	LastRecalled int64
	Recalls      uint32 // on how many of the last 90 days it was recalled
	Version      uint32 // of the memory; 0 for a candidate
	Importance   float32
	Session      uint32 // 0 means none
	Group        uint32 // in Retain, memories that are alike have the same number; 0 means none
	_            uint32
}

const extraSize = 64

const (
	preambleSize = 128
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

// The package compiles only if the layouts are the ABI's.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(Record{})-recordSize]
	_ = [1]struct{}{}[unsafe.Sizeof(preamble{})-preambleSize]
	_ = [1]struct{}{}[unsafe.Sizeof(Extra{})-extraSize]
	_ = [1]struct{}{}[unsafe.Sizeof(configEntry{})-configEntrySize]
	_ = [1]struct{}{}[unsafe.Sizeof(opRecord{})-opSize]
)
