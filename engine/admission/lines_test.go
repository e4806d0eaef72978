package admission_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/seed-0906e6bc/mneme/engine/admission"
)

// TestLines: one at a time for a name, in the order of arrival; whoever gives up is passed over, and a full line
// refuses.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := admission.NewLines(3)
		leave, err := lines.Enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		other, err := lines.Enter(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		other()
		ctx, giveUp := context.WithCancel(t.Context())
		var served []int
		gaveUp := false
		for i, ctx := range []context.Context{t.Context(), ctx, t.Context()} {
			go func() {
				leave, err := lines.Enter(ctx, "a")
				if err != nil {
					gaveUp = errors.Is(err, context.Canceled)
					return
				}
				served = append(served, i)
				leave()
			}()
			synctest.Wait()
		}
		if _, err := lines.Enter(t.Context(), "a"); !errors.Is(err, admission.ErrFull) {
			t.Errorf("a fourth waits: %v", err)
		}
		giveUp()
		synctest.Wait()
		if len(served) > 0 || !gaveUp {
			t.Errorf("before the place is free: %v, gave up: %v", served, gaveUp)
		}
		leave()
		synctest.Wait()
		if !slices.Equal(served, []int{0, 2}) {
			t.Errorf("served %v", served)
		}
		if leave, err = lines.Enter(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		leave()
	})
}
