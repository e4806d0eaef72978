package toolpairtrim

import (
	"github.com/seed-0906e6bc/mneme/policies/cut"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// reasons are the plan's texts, each written when it is first needed.
type reasons struct{ turn, question, pinned mneme.Text }

// cut says which bound was exceeded when the cut last moved, and by how much.
func (w *reasons) cut(plan *mneme.Plan, budget cut.Cost, c *cut.Cut, a cut.Atom) mneme.Text {
	if a.Facts.Question() && c.Crowd > 0 {
		if w.question.Len() == 0 {
			w.question = plan.Text("over_max_tokens: earlier questions came to ").Uint(c.Crowd).
				Str(" tokens, more than full turns leave them")
		}
		return w.question
	}
	if w.turn.Len() > 0 {
		return w.turn
	}
	if budget.Messages != 0 && c.Exceeded.Messages > budget.Messages {
		w.turn = plan.Text("over_max_messages: the window came to ").Uint(c.Exceeded.Messages).
			Str(" messages, the budget is ").Uint(budget.Messages)
	} else {
		w.turn = plan.Text("over_max_tokens: the window came to ").Uint(c.Exceeded.Tokens).
			Str(" tokens, the budget is ").Uint(budget.Tokens)
	}
	return w.turn
}

func (w *reasons) unpinned(plan *mneme.Plan) mneme.Text {
	if w.pinned.Len() == 0 {
		w.pinned = plan.Text("pinned_no_room: pinned, but the budget does not hold it beside what must stay")
	}
	return w.pinned
}
