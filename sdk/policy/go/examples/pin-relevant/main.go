// Command pin-relevant is an example policy: it pins the older messages that match the newest question best, so that
// later policies drop others first. Put it at the front of a pipeline.
package main

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

var _ = mneme.Register(pinRelevant)

const most = 16 // maximum number of atoms that the config can ask for

// question holds the text of the newest question. Scoring reads 4 KiB of it.
var question [4 << 10]byte

// best are the atoms with the highest scores so far, best first.
var best [most]struct{ first, last, score int }

// pinRelevant scores each message and keeps the atoms of the best ones.
func pinRelevant(req *mneme.Request, plan *mneme.Plan) error {
	asked := newestQuestion(req)
	if asked < 0 {
		return nil
	}
	n := min(req.Text(asked, 0, question[:]), len(question))
	query := string(question[:n])
	count, least := int(req.ConfigInt("count", 3)), int(req.ConfigInt("least", 200_000))
	found := 0
	for first, end := 0, 0; first < req.Len(); first = end {
		end = req.AtomEnd(first)
		r := req.Record(first)
		if r.Role == mneme.System || r.Flags.Has(mneme.Mandatory|mneme.Pinned) {
			continue // these are mandatory anyway
		}
		score := 0
		for i := first; i < end; i++ {
			score = max(score, req.Score(i, query))
		}
		if score >= least {
			found = insert(found, min(count, most), first, end-1, score)
		}
	}
	for i := range found {
		b := &best[i]
		plan.Keep(b.first, b.last, plan.Text("relevant: scores ").Uint(uint64(b.score)))
	}
	return nil
}

// newestQuestion returns the index of the user's newest record; -1 if there is none.
func newestQuestion(req *mneme.Request) int {
	for i := req.Len() - 1; i >= 0; i-- {
		if req.Record(i).Role == mneme.User {
			return i
		}
	}
	return -1
}

// insert adds an atom to the found best ones, and returns their new number. Of equal scores, the newer atom ranks
// higher.
func insert(found, count, first, last, score int) int {
	at := found
	for at > 0 && best[at-1].score <= score {
		at--
	}
	if at >= count {
		return found
	}
	found = min(found+1, count)
	for i := found - 1; i > at; i-- {
		best[i] = best[i-1]
	}
	best[at].first, best[at].last, best[at].score = first, last, score
	return found
}

func main() {}
