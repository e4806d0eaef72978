package hostapi

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/testdata/hostile"
)

// forAdmit returns a module that exports its function for windows as mneme_plan, for the hook admit.
func forAdmit(t *testing.T, module []byte) []byte {
	t.Helper()
	out := bytes.Clone(module[:8])
	for rest := module[8:]; len(rest) > 0; {
		size, head := binary.Uvarint(rest[1:])
		id, body := rest[0], rest[1+head:][:size]
		rest = rest[1+head+int(size):]
		switch {
		case id == 7:
			body = bytes.Replace(body, vec([]byte(exportAssemble)), vec([]byte(exportPlan)), 1)
		case id == 0 && bytes.Contains(body, []byte(manifestSection)):
			_, said, _ := bytes.Cut(body, []byte("{"))
			words := strings.Replace("{"+string(said), hooksOf(plan.HookAssemble), hooksOf(plan.HookAdmit), 1)
			at := strings.Index(words, `"abi":"1.`) + len(`"abi":"1.`)
			words = words[:at] + "3" + words[at+1:]
			body = append(vec([]byte(manifestSection)), words...)
		}
		out = append(append(out, id), vec(body)...)
	}
	return out
}

func hooksOf(h plan.Hook) string { return `"hooks":["` + h.String() + `"]` }

// What an attack cannot do as a window's policy, it cannot do as a memory's: each ends in the same way, or as a bad plan
// because admit does not take its ops.
func TestAttacksOnMemories(t *testing.T) {
	h := newHost(t, Options{})
	tried := 0
	for _, a := range hostile.Attacks() {
		if a.Large || a.Status == "" {
			continue
		}
		tried++
		m, err := h.Load(t.Context(), "attacker", forAdmit(t, a.Build()))
		if err != nil {
			t.Errorf("%s: %v", a.Name, err)
			continue
		}
		c := attackRequest(m.Digest, hostile.Records)
		c.Request.Hook, c.Request.Extra = plan.HookAdmit, make([]plan.Extra, hostile.Records)
		first := h.Run(t.Context(), c)
		notTaken := first.Status == plan.StatusBadPlan && strings.Contains(first.Detail, "admit does not take")
		if first.Status != a.Status && !notTaken && a.Status != plan.StatusBadPlan {
			t.Errorf("%s: %s: %s", a.Name, first.Status, first.Detail)
		}
		if again := h.Run(t.Context(), c); !sameOutcome(first, again) {
			t.Errorf("%s: first %+v, then %+v", a.Name, first, again)
		}
	}
	if tried < 50 {
		t.Errorf("only %d attacks", tried)
	}
}
