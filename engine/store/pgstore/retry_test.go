package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// TestErrorsOfTheDatabase classifies the errors of a database: whether a commit certainly did not happen, whether
// another attempt is made, and which error the caller gets in the end.
func TestErrorsOfTheDatabase(t *testing.T) {
	says := func(severity, code string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Severity: severity, SeverityUnlocalized: severity, Code: code})
	}
	other := says("ERROR", "42601")
	for _, c := range []struct {
		name          string
		err           error
		undone, again bool
		want          error
	}{
		{"serialisation", says("ERROR", "40001"), true, true, store.ErrUnavailable},
		{"deadlock", says("ERROR", "40P01"), true, true, store.ErrUnavailable},
		{"a standby", says("ERROR", "25006"), true, true, store.ErrUnavailable},
		{"a full disk", says("ERROR", "53100"), true, false, store.ErrNoSpace},
		{"no memory", says("ERROR", "53200"), true, false, store.ErrUnavailable},
		{"a statement timeout", says("ERROR", "57014"), true, false, store.ErrUnavailable},
		{"syntax", other, true, false, other},
		{"shutdown", says("FATAL", "57P01"), false, true, store.ErrUnavailable},
		{"crash elsewhere", says("WARNING", "57P02"), false, true, store.ErrUnavailable},
		{"an unknown completion", says("ERROR", "40003"), false, true, store.ErrUnavailable},
		{"a connection's end", io.ErrUnexpectedEOF, false, true, store.ErrUnavailable},
		{"its own time", context.DeadlineExceeded, false, true, store.ErrUnavailable},
		{"a lost commit", errLost, false, true, store.ErrUnavailable},
		{"an unknown outcome", fmt.Errorf("%w: gone", store.ErrUnknown), false, false, store.ErrUnknown},
		{"a former primary", fmt.Errorf("%w: gone", errFormer), false, true, store.ErrUnavailable},
		{"a standby that is away", errUnreplicated, false, true, store.ErrUnavailable},
	} {
		if got := undone(c.err); got != c.undone {
			t.Errorf("%s: certainly not done %t", c.name, got)
		}
		if got := passing(c.err); got != c.again {
			t.Errorf("%s: tried again %t", c.name, got)
		}
		if got := worded(t.Context(), c.err); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := worded(ended, io.ErrUnexpectedEOF); !errors.Is(got, context.Canceled) {
		t.Errorf("in an ended call: %v", got)
	}
}
