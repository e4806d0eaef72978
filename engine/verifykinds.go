package engine

import "bytes"

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
		{"key", inTenant, layout("k\x00", anyID), (*space).apiKey, nil},
		{"project", inTenant, layout("p\x00", anyID), (*space).project, (*space).damagedProject},
		{"job_session", inTenant, layout("j\x00s", 8), (*space).sessionJob, (*space).damagedSessionJob},
		{"job_project", inTenant, layout("j\x00p", 8), (*space).projectJob, (*space).damagedProjectJob},
		{"job_headless", inTenant, layout("j\x00h", 8), (*space).headlessJob, (*space).damagedHeadlessJob},
		{"job_import", inTenant, layout("j\x00i", 8, 8), (*space).importJob, (*space).damagedImportJob},
		{"job_summary", inTenant, layout("j\x00y", 8), (*space).summaryJob, nil},
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
)

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
			case int:
				if n = part; part == anything {
					return len(key) > 0
				}
				if part == anyID {
					at := bytes.IndexByte(key, sep)
					if at < 0 || !validID(string(key[:at])) {
						return false
					}
					n = at + 1
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
