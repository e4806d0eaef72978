package toolpairtrim

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// reasons are the plan's reason texts. Each is written when it is first needed.
type reasons struct {
	budget                     cost
	depth                      int64
	deep, cut, question, unpin mneme.Text
}

// left returns the reason for dropping a record's turn, or the question that an earlier step left of it. Such a
// question is never dropped because of the depth.
func (w *reasons) left(plan *mneme.Plan, s *start, record int, question bool) mneme.Text {
	if record < s.deep && !question {
		if w.deep.Len() == 0 {
			w.deep = plan.Text("beyond_depth: older than the newest ").Uint(uint64(w.depth)).Str(" turns")
		}
		return w.deep
	}
	if w.cut.Len() == 0 {
		w.cut = w.exceeded(plan, &s.why)
	}
	return w.cut
}

// exceeded says what the window exceeded when the cut last moved.
func (w *reasons) exceeded(plan *mneme.Plan, e *excess) mneme.Text {
	messages := w.budget.Messages != 0 && e.window.Messages+e.reserve.Messages > w.budget.Messages
	switch {
	case e.like > 0 && messages:
		return plan.Text("turn_room: the turn would not have had room: of the last ").Uint(uint64(e.like)).
			Str(" with tool results one took ").Uint(e.reserve.Messages).Str(" messages")
	case e.like > 0:
		return plan.Text("turn_room: the turn would not have had room: of the last ").Uint(uint64(e.like)).
			Str(" with tool results one took ").Uint(e.reserve.Tokens).Str(" tokens")
	case messages:
		return plan.Text("over_max_messages: the window came to ").Uint(e.window.Messages).
			Str(" messages, the budget is ").Uint(w.budget.Messages)
	}
	return plan.Text("over_max_tokens: the window came to ").Uint(e.window.Tokens).
		Str(" tokens, the budget is ").Uint(w.budget.Tokens)
}

func (w *reasons) pasted(plan *mneme.Plan, tokens uint64) mneme.Text {
	if w.question.Len() == 0 {
		w.question = plan.Text("over_max_tokens: a long question of a turn that is cut is cut to ").Uint(tokens).Str(" tokens")
	}
	return w.question
}

func (w *reasons) unpinned(plan *mneme.Plan) mneme.Text {
	if w.unpin.Len() == 0 {
		w.unpin = plan.Text("pinned_no_room: pinned, but the budget does not hold it beside what must stay")
	}
	return w.unpin
}
