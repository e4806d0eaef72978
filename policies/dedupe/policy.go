// Package dedupe is the built-in policy that merges a candidate into a memory that already says it, and a memory into a
// candidate that says it and more. It never merges by likeness: contradictions are more alike than paraphrases.
package dedupe

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// Admit merges the candidate into the first memory that allows it. A candidate whose key the client chose stays, and so
// does one whose key has a memory: it is the next version of that one, which would otherwise keep its old text.
func Admit(req *mneme.Request, plan *mneme.Plan) error {
	candidate := req.Memory(0)
	if candidate.Flags.Has(mneme.ClientKey) || replaces(req) {
		return nil
	}
	for i := 1; i < req.Len(); i++ {
		m := req.Memory(i)
		same := m.Flags.Has(mneme.Equal)
		switch {
		case !comparable(req, i, candidate, m):
		case same && m.Trust >= candidate.Trust:
			plan.Merge(i, 0, plan.Text("equal"))
			return nil
		case same && mayChange(candidate, m):
			plan.MergeText(i, 0, mneme.Text{}, plan.Text("equal_trusted"))
			return nil
		case m.Flags.Has(mneme.Covers) && m.Trust >= candidate.Trust:
			plan.Merge(i, 0, plan.Text("covered"))
			return nil
		}
	}
	for i := 1; i < req.Len(); i++ {
		m := req.Memory(i)
		if m.Flags.Has(mneme.Covered) && mayChange(candidate, m) && comparable(req, i, candidate, m) {
			plan.MergeText(i, 0, mneme.Text{}, plan.Text("extended"))
			return nil
		}
	}
	return nil
}

// replaces reports whether there is a memory under the candidate's key.
func replaces(req *mneme.Request) bool {
	for i := 1; i < req.Len(); i++ {
		if req.Memory(i).Flags.Has(mneme.CandidateKey) {
			return true
		}
	}
	return false
}

// comparable reports whether a memory and the candidate can be one memory: neither is lost earlier than it would be, they
// happened at the same time, neither has a value, and the candidate has nothing that the memory would not take over:
// metadata, and that it is standing or pinned.
func comparable(req *mneme.Request, i int, candidate, m *mneme.Extra) bool {
	return (m.Category == candidate.Category || m.Category == mneme.Core) &&
		(candidate.Session == m.Session || m.Category != mneme.Conversation) &&
		(candidate.Occurred == 0 || candidate.Occurred == m.Occurred) &&
		(m.Expires == 0 || candidate.Expires != 0 && m.Expires >= candidate.Expires) &&
		!candidate.Flags.Has(mneme.PinnedMemory) && req.JSON(0, "/pinned", nil) < 0 && req.JSON(0, "/standing", nil) < 0 &&
		req.JSON(0, "/metadata", nil) < 0 && req.JSON(0, "/value", nil) < 0 && req.JSON(i, "/value", nil) < 0
}

// mayChange reports whether the candidate may become the next version of a memory.
func mayChange(candidate, m *mneme.Extra) bool {
	return candidate.Trust >= m.Trust && m.Trust != mneme.TrustOperator && !m.Flags.Has(mneme.PinnedMemory)
}
