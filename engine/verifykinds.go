package engine

import (
	"bytes"
	"strings"
)

// Where records of a kind may lie.
const (
	inTenant = iota
	inSystem
	inBoth
)

// recordKind is one line of keys.go, as Verify sees it. What is stored under a key of no kind is a finding, so whoever
// adds a line there adds one here.
type recordKind struct {
	name string
	in   int
	is   func(key []byte) bool
	// check holds a record, in the order of keys, against those before it and notes what later ones need.
	check func(s *space, key, value []byte)
	// damaged does so for one that fails its checksum, where that matters to others; nil elsewhere.
	damaged func(s *space, key []byte)
}

func recordKinds() []recordKind {
	return []recordKind{
		{"body", inTenant, layout("m\x00", 8, "b", 8, 2), (*space).body, (*space).damagedBody},
		{"headers", inTenant, layout("m\x00", 8, "h", 4), (*space).headers, (*space).damagedHeaders},
		{"summary", inTenant, layout("m\x00", 8, "s", 4), (*space).summary, (*space).damagedSummary},
		{"decision", inTenant, layout("zd", 8, 2, 8, 14, 2), (*space).decision, (*space).damagedDecision},
		{"effective", inTenant, layout("ze", 8, 2, 16), (*space).effective, (*space).damagedEffective},
		{"session", inTenant, layout("h\x00", 8, anyID), (*space).head, (*space).damagedHead},
		{"open_calls", inTenant, layout("o\x00", 8, anyID), (*space).openCalls, (*space).damagedOpenCalls},
		{"idempotent", inBoth, layout("i\x00", 16), (*space).once, (*space).expires},
		{"expiry", inBoth, layout("x\x00", 8, anything), (*space).expiry, (*space).damagedExpiry},
		{"audit", inTenant, layout("a\x00", 8, 8), (*space).auditEntry, (*space).expires},
		{"live", inTenant, layout("l\x00"), (*space).liveMark, nil},
		{"key", inTenant, layout("k\x00", anyID), (*space).apiKey, (*space).damagedKey},
		{"key_use", inTenant, layout("zu", lastID), (*space).keyUse, nil},
		{"project", inTenant, layout("p\x00", anyID), (*space).project, (*space).damagedProject},
		{"job_session", inTenant, layout("j\x00s", 8), (*space).sessionJob, (*space).damagedSessionJob},
		{"job_project", inTenant, layout("j\x00p", 8), (*space).projectJob, (*space).damagedProjectJob},
		{"job_headless", inTenant, layout("j\x00h", 8), (*space).headlessJob, (*space).damagedHeadlessJob},
		{"import", inTenant, layout("f\x00", 32), (*space).importProgress, (*space).expires},
		{"job_import", inTenant, layout("j\x00i", 8, "j\x00s", 8), (*space).stagedSession, (*space).damagedStaged},
		{"job_import_board", inTenant, layout("j\x00i", 8, "j\x00cc\x00", 8), (*space).stagedBoard, (*space).damagedStaged},
		{"job_summary", inTenant, layout("j\x00y", 8), (*space).summaryJob, nil},
		{"job_decisions", inTenant, layout("j\x00d", 8), (*space).decisionsJob, nil},
		{"retention", inBoth, layout("r\x00"), (*space).retention, nil},
		{"memory", inTenant, layout("e\x00r", 8, anyID, 1), (*space).memoryPart, (*space).damagedMemoryPart},
		{"memory_version", inTenant, layout("e\x00h", 8, anyID, 4, 1), (*space).memoryPart, (*space).damagedMemoryPart},
		{"memory_time", inTenant, layout("e\x00t", 8, 8, lastID), (*space).memoryTime, (*space).damagedMemoryTime},
		{"recall_document", inTenant, layout("v\x00", 8, recallSpaces, "d", 16), (*space).recallDoc, (*space).damagedRecallDoc},
		{"recall_fresh", inTenant, layout("v\x00", 8, recallSpaces, "f", 4, 16), (*space).recallDoc, (*space).damagedRecallDoc},
		{"recall_epoch", inTenant, layout("v\x00", 8, recallSpaces, "w"), (*space).recallEpoch, (*space).damagedRecallEpoch},
		{"recall_dead", inTenant, layout("v\x00", 8, recallSpaces, "x", 16), (*space).recallDead, (*space).damagedRecallDead},
		{"recall_block", inTenant, layout("v\x00", 8, recallSpaces, "t", anyTerm, 16), (*space).recallBlock,
			(*space).damagedRecallBlock},
		{"recall_memory", inTenant, layout("v\x00", 8, "mk", lastID), (*space).recallMemory, (*space).damagedRecallMemory},
		{"recall_stream", inTenant, layout("v\x00", 8, recallSpaces, "n", 8), (*space).recallStream,
			(*space).damagedRecallStream},
		{"recall_language", inTenant, layout("v\x00", 8, recallSpaces, "l", anything), (*space).recallLanguage, nil},
		{"recall_corpus", inTenant, layout("v\x00", 8, recallSpaces, "s"), (*space).recallCorpus, (*space).damagedRecallCorpus},
		{"job_fold", inTenant, layout("j\x00f", 8, recallSpaces), (*space).foldJob, (*space).damagedFoldJob},
		{"job_unindexed", inTenant, layout("j\x00u", 8, 8), (*space).unindexedJob, (*space).damagedUnindexedJob},
		{"job_backlog", inTenant, layout("j\x00b", 8), (*space).backlogJob, (*space).damagedBacklogJob},
		{"board", inTenant, layout("b\x00", anyID), (*space).board, (*space).damagedBoard},
		{"board_entry", inTenant, layout("c\x00", 8, "e", 8, 2), (*space).boardEntry, (*space).damagedBoardEntry},
		{"board_time", inTenant, layout("c\x00", 8, "d", 8, 8), (*space).boardTime, (*space).damagedBoardTime},
		{"board_postings", inTenant, layout("c\x00", 8, "i", anyTerm, 8), (*space).boardPostings, (*space).damagedBoardPostings},
		{"board_agent", inTenant, layout("c\x00", 8, "g", anyID), (*space).boardAgent, (*space).damagedBoardAgent},
		{"board_notice", inTenant, layout("c\x00", 8, "n", 8, 8), (*space).boardNotice, (*space).damagedBoardNotice},
		{"job_board", inTenant, layout("j\x00c", "c\x00", 8), (*space).boardJob, (*space).damagedBoardJob},
		{"job_inbox", inTenant, layout("j\x00c", "c\x00", 8, "n", 8), (*space).boardJob, (*space).damagedBoardJob},
		{"job_board_due", inTenant, layout("j\x00e", 8, lastID), (*space).boardDueJob, (*space).damagedBoardDueJob},
		{"usage", inTenant, layout("u\x00", 2), (*space).usageDay, (*space).expires},
		{"policy", inTenant, layout("g\x00", anyID), (*space).policy, (*space).damagedPolicy},
		{"policy_version", inTenant, layout("y\x00", anyID, 4), (*space).policyVersion, (*space).damagedVersion},
		{"policy_usage", inTenant, layout("q\x00"), (*space).policyUsage, (*space).damagedUsage},
		{"module", inBoth, layout("w\x00", 32, 2), (*space).module, (*space).damagedModule},
		{"tenant", inSystem, layout("t\x00", anyID), (*space).tenantRecord, (*space).damagedTenant},
		{"job_tenant", inSystem, layout("j\x00t", anything), (*space).tenantJob, (*space).damagedTenantJob},
		{"built_in", inSystem, layout("n\x00", anyID), (*space).builtIn, (*space).damagedBuiltIn},
	}
}

// Parts of layouts beside literals and numbers of bytes.
const (
	anyID    = -1 // a client's id and the separator behind it
	anything = -2 // at least one byte, to the end
	lastID   = -3 // a client's id, to the end
	anyTerm  = -4 // a term of an index and the separator behind it
)

// oneOf is one byte among these.
type oneOf string

const recallSpaces oneOf = "mt"

// layout tells whether a key is made of these parts: a literal, a number of bytes, or one of the constants above.
func layout(parts ...any) func(key []byte) bool {
	return func(key []byte) bool {
		for _, part := range parts {
			n := 0
			switch part := part.(type) {
			case string:
				if n = len(part); !bytes.HasPrefix(key, []byte(part)) {
					return false
				}
			case oneOf:
				if n = 1; len(key) == 0 || strings.IndexByte(string(part), key[0]) < 0 {
					return false
				}
			case int:
				at := bytes.IndexByte(key, sep)
				switch n = part; part {
				case anything:
					return len(key) > 0
				case lastID:
					return validID(string(key))
				case anyID, anyTerm:
					if n = at + 1; at < 1 || part == anyID && !validID(string(key[:at])) {
						return false
					}
				}
			}
			if len(key) < n {
				return false
			}
			key = key[n:]
		}
		return len(key) == 0
	}
}

// idIn reads the client's id that a key ends with, after a prefix of so many bytes.
func idIn(key []byte, prefix int) string { return string(key[prefix : len(key)-1]) }
