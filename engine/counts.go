package engine

import (
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/stats"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// setCounts sets up the counting of turns, windows and model calls.
func (e *Engine) setCounts() {
	e.Sessions.Appended = func(tenant string, pinc ident.Incarnation, t *transcript.Turn, messages []session.TurnMessage) {
		turn := stats.Turn{Continues: t.Continues > 0}
		for i := range messages {
			if messages[i].Role == chat.RoleName(plan.RoleAssistant) {
				turn.Answered += uint64(messages[i].Tokens)
			}
		}
		e.Stats.Count(tenant, pinc, turn)
	}
	e.Windows.Answered = func(tenant string, pinc ident.Incarnation, r *decision.Record, left decision.LeftOut,
		took time.Duration) {
		w := stats.Window{Tokens: r.Usage.Tokens, LeftOut: left, Cut: r.Cut, Steps: r.Steps,
			Micros: uint64(max(0, took.Microseconds()))}
		if p := r.Usage.Prefix; p != nil {
			w.Prefix = p.Tokens
		}
		e.Stats.Count(tenant, pinc, w)
	}
	e.Outbound.Ended = func(tenant string, pinc ident.Incarnation, spent decision.Spent) {
		e.Stats.Count(tenant, pinc, stats.Call(spent))
	}
}
