package hostapi

// The ABI is defined once, in this file and in the tables of functions (functions.go, wasi.go, admit.go). The encoder
// and the decoder use these offsets, the host modules are built from those tables, and docs/ABI.md is generated from
// all of them.

// Version of the ABI that this host speaks. Minor versions only append.
const (
	abiMajor   = 1
	abiMinor   = 3
	abiVersion = abiMajor<<16 | abiMinor
)

// Magic numbers, read as little-endian u32.
const (
	requestMagic = 0x314d4e4d // MNM1
	planMagic    = 0x31504e4d // MNP1
)

// Names of a guest's exports.
const (
	exportMemory     = "memory"
	exportInitialize = "_initialize"
	exportABI        = "mneme_abi"
	exportArena      = "mneme_arena"
	exportAssemble   = "mneme_assemble"
	exportPlan       = "mneme_plan"
)

// Kinds of arenas, the first argument of mneme_arena.
const (
	arenaRequest = 0
	arenaPlan    = 1
)

// manifestSection is the custom section that declares a module's hooks.
const manifestSection = "mneme.policy"

// hooksSince is the minor version that added the hooks other than assemble.
const hooksSince = 3

// Offsets in the request's preamble.
const (
	preMagic            = 0
	preABI              = 4
	prePreambleSize     = 8
	preRecordSize       = 12
	preRecordCount      = 16
	preRecordsOffset    = 20
	preConfigOffset     = 24
	preConfigCount      = 28
	preStringsOffset    = 32
	preStringsCount     = 36
	preBudgetMessages   = 40
	preBudgetTokens     = 44
	preViewerDelegation = 48
	preViewerAgent      = 52
	preNow              = 56
	preSeed             = 64
	preNewestTurn       = 72
	preFlags            = 76
	preSummaryCovers    = 80
	preSummaryTokens    = 88
	preReserved         = 92
	preOlderTokens      = 96
	preMemoryBudget     = 104
	preReserved2        = 108
	preHook             = 112
	preOrigin           = 116
	preExtraOffset      = 120
	preExtraSize        = 124

	preambleSize = 128
)

// flagOlderExist is set in the preamble's flags if messages exist beyond the table.
const flagOlderExist = 1

// Offsets in a record.
const (
	recIndex            = 0
	recTurn             = 4
	recSeq              = 8
	recRole             = 16
	recKind             = 17
	recFlags            = 18
	recTokens           = 20
	recCompressedTokens = 24
	recTextBytes        = 28
	recAtom             = 32
	recDelegation       = 36
	recAgent            = 40
	recTool             = 44
	recTags             = 48
	recTagCount         = 52
	recCreated          = 56
	recPlace            = 64
	recReserved         = 68

	recordSize = 72
)

// Offsets in an entry of the extra table.
const (
	extKey          = 0
	extNamespace    = 4
	extCategory     = 8
	extTrust        = 9
	extFlags        = 10
	extScore        = 12
	extOccurred     = 16
	extExpires      = 24
	extLastRecalled = 32
	extRecalls      = 40
	extVersion      = 44
	extImportance   = 48
	extSession      = 52
	extGroup        = 56
	extReserved     = 60

	extraSize = 64
)

// Offsets in a config entry, and its types.
const (
	cfgKeyOffset    = 0
	cfgKeyLength    = 4
	cfgType         = 8
	cfgStringLength = 12
	cfgValue        = 16

	configSize = 24

	typeInteger = 1
	typeFloat   = 2
	typeBoolean = 3
	typeString  = 4
)

// Offsets in an entry of the string table, and the width of an entry of the tag list.
const (
	strOffset = 0
	strLength = 4

	stringSize = 8
	tagSize    = 4
)

// Offsets in a plan's header.
const (
	planMagicAt   = 0
	planOpCount   = 4
	planOpsOffset = 8
	planOpSize    = 12

	planHeaderSize = 16
)

// Offsets in an op.
const (
	opCode         = 0
	opTemplate     = 1
	opReserved     = 2
	opFirst        = 4
	opLast         = 8
	opTextOffset   = 12
	opTextLength   = 16
	opReasonOffset = 20
	opReasonLength = 24
	opArgument     = 28

	opSize = 32

	maxReason = 200 // of an op's reason, in bytes
)

// field is one row of a table: the field at an offset.
type field struct {
	at        int
	typ, name string
	doc       string
}

// The rows of the tables. They are never changed; they are variables only because Go has no constant slices.
var (
	preambleFields = []field{
		{preMagic, "u32", "magic", "`MNM1` (bytes 4D 4E 4D 31)"},
		{preABI, "u32", "abi", "the host's version, as in `mneme_abi`"},
		{prePreambleSize, "u32", "preamble_size", "128; 112 in 1.1 and 1.2, 96 in 1.0"},
		{preRecordSize, "u32", "record_size", "72; 64 in 1.0. Guests step by it"},
		{preRecordCount, "u32", "record_count", "records in the table"},
		{preRecordsOffset, "u32", "records_offset", "offset of the first record"},
		{preConfigOffset, "u32", "config_offset", "offset of the first config entry"},
		{preConfigCount, "u32", "config_count", "config entries, sorted by key"},
		{preStringsOffset, "u32", "strings_offset", "offset of the string table"},
		{preStringsCount, "u32", "strings_count", "pairs in the string table"},
		{preBudgetMessages, "u32", "budget_messages", "the most messages in this window's history; 0: no limit"},
		{preBudgetTokens, "u32", "budget_tokens", "the most tokens in this window's history, in recall of the hits; in remember what is left of the day; 0: no limit"},
		{preViewerDelegation, "u32", "viewer_delegation", "dense id; 0: the main agent"},
		{preViewerAgent, "u32", "viewer_agent", "string id"},
		{preNow, "i64", "now", "ms since 1970"},
		{preSeed, "u64", "seed", "the only source of randomness; an input like the others"},
		{preNewestTurn, "u32", "newest_turn",
			"number of the newest turn, which is the pending one if there is any"},
		{preFlags, "u32", "flags", "1: older messages exist beyond the table"},
		{preSummaryCovers, "u64", "summary_covers",
			"the stored summary covers every message with seq up to this; 0: none"},
		{preSummaryTokens, "u32", "summary_tokens", "tokens of the stored summary"},
		{preReserved, "u32", "reserved", "0"},
		{preOlderTokens, "u64", "older_tokens",
			"since 1.1: tokens of the session's messages before the table, as counted when stored"},
		{preMemoryBudget, "u32", "memory_budget",
			"since 1.1: the most tokens of the memories recalled for this window; 0: none are requested, or no limit"},
		{preReserved2, "u32", "reserved", "0"},
		{preHook, "u32", "hook", "since 1.3: " + hookList()},
		{preOrigin, "u32", "origin", "since 1.3: who writes the candidate: 0 nobody, 1 api, 2 tool, 3 file, 4 remember"},
		{preExtraOffset, "u32", "extra_offset", "since 1.3: offset of the extra table; 0 in assemble"},
		{preExtraSize, "u32", "extra_size", "since 1.3: 64. Guests step by it"},
	}

	recordFields = []field{
		{recIndex, "u32", "index", "index in the table, from 0"},
		{recTurn, "u32", "turn", "the turn of the record's atom, from 1"},
		{recSeq, "u64", "seq", "counts the session's messages from 1; 0 for system-class records"},
		{recRole, "u8", "role", "1 user, 2 assistant, 3 tool, 4 system-class"},
		{recKind, "u8", "kind", "0 chat, 1 tool call, 2 tool result, 3 a2a, 4 summary, 5 memory, 6 marker; since 1.3 also 7 candidate, 8 answer, 9 query"},
		{recFlags, "u16", "flags", "1 pending, 2 open call, 4 compressed, 8 error result, 16 image, 32 mandatory, " +
			"64 tags left out for space; since 1.1 also 128 pinned, 256 has thinking, 512 has audio, 1024 has documents; since 1.3 also 2048 context, remembered before"},
		{recTokens, "u32", "tokens", "in the requested rendering"},
		{recCompressedTokens, "u32", "compressed_tokens", "its tokens as an earlier question; 0 if it has none"},
		{recTextBytes, "u32", "text_bytes", "length of the text, as `text` returns it"},
		{recAtom, "u32", "atom", "dense id"},
		{recDelegation, "u32", "delegation", "dense id; 0: none"},
		{recAgent, "u32", "agent", "string id"},
		{recTool, "u32", "tool_name", "string id"},
		{recTags, "u32", "tags", "position of the first tag in the tag list"},
		{recTagCount, "u32", "tag_count", "tags of this record"},
		{recCreated, "i64", "created", "ms since 1970"},
		{recPlace, "u32", "place", "since 1.1: the place of the record's turn among the turns that were not rewound, from 1; 0 " +
			"for system-class records. If nothing was rewound, it is the turn's number"},
		{recReserved, "u32", "reserved", "0"},
	}

	extraFields = []field{
		{extKey, "u32", "key", "string id; 0 for messages"},
		{extNamespace, "u32", "namespace", "string id of the namespace as JSON; 0 for messages"},
		{extCategory, "u8", "category", "0 none, 1 core, 2 daily, 3 conversation"},
		{extTrust, "u8", "trust", "0 none, 1 tool, 2 model, 3 user, 4 operator; of messages, too"},
		{extFlags, "u16", "flags", "1 has the candidate's key, 2 pinned, 4 equal to the candidate, 8 covers it, 16 is covered by it, " +
			"32 equal but for digits, 64 shown in this session's windows, 128 the client chose the key, 256 has pasted parts"},
		{extScore, "u32", "score", "0 to 1,000,000: of a hit relative to the best; of a memory how alike it is to the candidate, " +
			"in remember to the nearest message"},
		{extOccurred, "i64", "occurred", "ms since 1970; 0: none"},
		{extExpires, "i64", "expires", "ms since 1970; 0: never"},
		{extLastRecalled, "i64", "last_recalled", "ms since 1970; 0: never"},
		{extRecalls, "u32", "recalls", "on how many of the last 90 days a client got it or a window showed it"},
		{extVersion, "u32", "version", "of the memory; 0 for a candidate"},
		{extImportance, "f32", "importance", "0 to 1"},
		{extSession, "u32", "session", "string id of the session it is from; 0: none"},
		{extGroup, "u32", "group", "in retain: memories that are alike have the same number; 0: none"},
		{extReserved, "u32", "reserved", "0"},
	}

	configFields = []field{
		{cfgKeyOffset, "u32", "key_offset", ""},
		{cfgKeyLength, "u32", "key_length", ""},
		{cfgType, "u32", "type", "1 integer, 2 float, 3 boolean, 4 string"},
		{cfgStringLength, "u32", "string_length", "0 except for strings"},
		{cfgValue, "8 bytes", "value", "i64, f64, 0 or 1, or the string's offset"},
	}

	stringFields = []field{
		{strOffset, "u32", "offset", ""},
		{strLength, "u32", "length", "id 0 is the empty string"},
	}

	planFields = []field{
		{planMagicAt, "u32", "magic", "`MNP1` (bytes 4D 4E 50 31)"},
		{planOpCount, "u32", "op_count", ""},
		{planOpsOffset, "u32", "ops_offset", "offset of the first op"},
		{planOpSize, "u32", "op_size", "32 in 1.0; the host steps by it"},
	}

	opFields = []field{
		{opCode, "u8", "op", "see the ops"},
		{opTemplate, "u8", "template", "0 unless the op has one"},
		{opReserved, "u16", "reserved", "0"},
		{opFirst, "u32", "first", "first record"},
		{opLast, "u32", "last", "last record, inclusive. Ranges of different ops must not overlap, except those of KEEP, LEDGER and REPLACE, see there"},
		{opTextOffset, "u32", "text_offset", "in the plan (REPLACE, INSERT, PATCH, MERGE, STORE, ASK)"},
		{opTextLength, "u32", "text_length", "0 for the other ops"},
		{opReasonOffset, "u32", "reason_offset", "in the plan"},
		{opReasonLength, "u32", "reason_length", "`code` or `code: text`, at most 200 bytes"},
		{opArgument, "u32", "argument", "TRUNCATE: tokens; since 1.2 COMPRESS and LEDGER too; SUMMARISE, STRIP, REPLACE with template 2, MERGE, ASK, RANK: see there; 0 for the other ops"},
	}
)
