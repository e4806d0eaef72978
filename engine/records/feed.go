package records

// This part of the package is what streams of events read from: a position among things that happened, which are in the store.

import "context"

// Event is one event of a feed. Its Kind is empty if all events of the feed have the same kind.
type Event struct {
	Kind string
	ID   string
	Data any
}

// Feed returns stored events in order, each once, from a position on. Only one goroutine may use it.
type Feed interface {
	// News returns a channel that is closed when there may be new events. Take it before calling Next, so that
	// nothing is missed. It only covers changes of this process; for those of others, call Next from time to time. It
	// may be nil.
	News() <-chan struct{}
	// Next returns the next stored events: a bounded number, or none. It fails with not_found if the followed object
	// was deleted, even if there is a new one with its name.
	Next(ctx context.Context) ([]Event, error)
	// Close releases the resources of News. Call it once.
	Close()
}
