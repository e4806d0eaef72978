package records

// This part of the package is what streams of events read from: a position among things that happened, which are in the store.

import "context"

// Event is one thing that happened. Its Kind is empty where all events of a feed are of one kind.
type Event struct {
	Kind string
	ID   string
	Data any
}

// Feed gives events in order, each once, from a position on. It is for one goroutine.
type Feed interface {
	// News is closed when there may be something new, from now on. Take it before asking Next, so that nothing is
	// missed. It tells of what this process did; for what others do, ask Next every so often. It may be nil.
	News() <-chan struct{}
	// Next gives the events that come next and are there already: a bounded number, and none where there are none. It
	// answers not_found where what is followed was deleted, also where there is another of its name now.
	Next(ctx context.Context) ([]Event, error)
	// Close lets go of what News needs. Call it once.
	Close()
}
