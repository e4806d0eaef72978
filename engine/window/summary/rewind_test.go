package summary_test

import (
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// TestRewindAmidACall rewinds a session while a model reads what is taken back: the summary that comes of it is thrown
// away, and one of what is left takes its place.
func TestRewindAmidACall(t *testing.T) {
	for _, anew := range []bool{false, true} {
		model := &enginetest.Scribe{}
		k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
		k.SetIn(ident.DefaultProject, `{"summary_enabled":true,"summary_threshold":10,"summary_keep_last":4}`)
		for n := range 12 {
			k.Say("dashboard", 2*n+1, 2)
		}
		rewound := 0
		model.Fail = func(int) error {
			if rewound++; rewound > 1 {
				return nil
			}
			to := uint32(6)
			_, err := k.Sessions.Rewind(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "dashboard",
				session.RewindRequest{ToTurn: &to})
			if err != nil {
				t.Error(err)
			}
			return nil
		}
		if anew {
			refresh(k, "dashboard")
		} else {
			k.Ask(enginetest.Unbounded)
		}
		k.Drain()
		if s := k.GetSession("dashboard"); !anew && s.Summary != nil || rewound == 0 {
			t.Errorf("anew %t: after %d calls the summary is %v", anew, rewound, s.Summary)
		} else if anew && (s.Summary == nil || !slices.Equal(enginetest.Mark.FindAllString(*s.Summary, -1), enginetest.UpTo(10))) {
			t.Errorf("the summary that was asked for is %v", s.Summary)
		}
		if r := k.Verify(); len(r.Findings) > 0 {
			t.Error(r.Findings)
		}
	}
}
