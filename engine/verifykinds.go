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

// recordKind is one line of keys.go, as Verify sees it. What is stored under a key of no kind is a finding. The room
// that keeps records of a kind has its check.
type recordKind struct {
	name string
	in   int
	is   func(key []byte) bool
}

func recordKinds() []recordKind {
	return []recordKind{
		{"body", inTenant, layout("m\x00", 8, "b", 8, 2)},
		{"headers", inTenant, layout("m\x00", 8, "h", 4)},
		{"summary", inTenant, layout("m\x00", 8, "s", 4)},
		{"decision", inTenant, layout("zd", 8, 2, 8, 14, 2)},
		{"effective", inTenant, layout("ze", 8, 2, 16)},
		{"session", inTenant, layout("h\x00", 8, anyID)},
		{"open_calls", inTenant, layout("o\x00", 8, anyID)},
		{"idempotent", inBoth, layout("i\x00", 16)},
		{"expiry", inBoth, layout("x\x00", 8, anything)},
		{"audit", inTenant, layout("a\x00", 8, 8)},
		{"live", inTenant, layout("l\x00")},
		{"key", inTenant, layout("k\x00", anyID)},
		{"key_use", inTenant, layout("zu", lastID)},
		{"project", inTenant, layout("p\x00", anyID)},
		{"job_session", inTenant, layout("j\x00s", 8)},
		{"job_project", inTenant, layout("j\x00p", 8)},
		{"job_headless", inTenant, layout("j\x00h", 8)},
		{"job_import", inTenant, layout("j\x00i", 8, 8)},
		{"job_summary", inTenant, layout("j\x00y", 8)},
		{"job_decisions", inTenant, layout("j\x00d", 8)},
		{"retention", inBoth, layout("r\x00")},
		{"memory", inTenant, layout("e\x00r", 8, anyID, 1)},
		{"memory_version", inTenant, layout("e\x00h", 8, anyID, 4, 1)},
		{"memory_time", inTenant, layout("e\x00t", 8, 8, lastID)},
		{"recall_document", inTenant, layout("v\x00", 8, recallSpaces, "d", 16)},
		{"recall_fresh", inTenant, layout("v\x00", 8, recallSpaces, "f", 4, 16)},
		{"recall_epoch", inTenant, layout("v\x00", 8, recallSpaces, "w")},
		{"recall_dead", inTenant, layout("v\x00", 8, recallSpaces, "x", 16)},
		{"recall_block", inTenant, layout("v\x00", 8, recallSpaces, "t", anyTerm, 16)},
		{"recall_memory", inTenant, layout("v\x00", 8, "mk", lastID)},
		{"recall_stream", inTenant, layout("v\x00", 8, recallSpaces, "n", 8)},
		{"recall_language", inTenant, layout("v\x00", 8, recallSpaces, "l", anything)},
		{"recall_corpus", inTenant, layout("v\x00", 8, recallSpaces, "s")},
		{"job_fold", inTenant, layout("j\x00f", 8, recallSpaces)},
		{"job_unindexed", inTenant, layout("j\x00u", 8, 8)},
		{"job_backlog", inTenant, layout("j\x00b", 8)},
		{"board", inTenant, layout("b\x00", anyID)},
		{"board_entry", inTenant, layout("c\x00", 8, "e", 8, 2)},
		{"board_time", inTenant, layout("c\x00", 8, "d", 8, 8)},
		{"board_postings", inTenant, layout("c\x00", 8, "i", anyTerm, 8)},
		{"board_agent", inTenant, layout("c\x00", 8, "g", anyID)},
		{"board_notice", inTenant, layout("c\x00", 8, "n", 8, 8)},
		{"job_board", inTenant, layout("j\x00c", "c\x00", 8)},
		{"job_inbox", inTenant, layout("j\x00c", "c\x00", 8, "n", 8)},
		{"job_board_due", inTenant, layout("j\x00e", 8, lastID)},
		{"usage", inTenant, layout("u\x00", 2)},
		{"policy", inTenant, layout("g\x00", anyID)},
		{"policy_version", inTenant, layout("y\x00", anyID, 4)},
		{"policy_usage", inTenant, layout("q\x00")},
		{"module", inBoth, layout("w\x00", 32, 2)},
		{"tenant", inSystem, layout("t\x00", anyID)},
		{"job_tenant", inSystem, layout("j\x00t", anything)},
		{"built_in", inSystem, layout("n\x00", anyID)},
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
