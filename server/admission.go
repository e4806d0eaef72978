package server

import (
	"context"
	"errors"
	"net/http"
	"runtime"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// newPlaces makes the gate that requests pass before the engine works on them. Twice as many work at once as there are
// processors; those that wait for the disk, the database, a lock or a client have left their places meanwhile. A tenant
// that is alone keeps all processors busy. While another one is about, it leaves one processor free, because Go lets a
// request that runs finish its ten milliseconds before it gives the processor to one that is ready. As many of its
// requests as there are processors are inside then, those that wait for the disk included: a commit ends the waiting of
// all that it holds at once, and they would go before whoever comes next. The rest wait in line, each tenant in its own,
// and the lines are served by turns, so that a flood costs its sender.
func newPlaces() *admission.Gate {
	processors := runtime.GOMAXPROCS(0)
	places := admission.NewGate(2*processors, min(processors+1, 2*processors-1))
	places.Crowd(max(1, processors-1), processors)
	// What the database and the collector do for a flood takes about as much again as its requests, so those may take
	// half of the time. Where processors are few, that work falls on the one that is left free, and the flood rests
	// longer.
	places.Pace(flood, max(1, 5-processors))
	return places
}

// newFeeds makes the gate that streams of events pass for each look at the store: half of the processors, by turns of
// tenants, so that a tenant with many streams delays its own.
func newFeeds() *admission.Gate {
	n := max(1, runtime.GOMAXPROCS(0)/2)
	return admission.NewGate(n, n)
}

// flood is how many requests of one sender wait from where on they are refused soon: a client with a few of them at
// once is served late on a busy machine, rather than refused.
const flood = 32

// enter waits for a place, and answers busy where none became free in time.
func (s *Server) enter(ctx context.Context, who string) (*admission.Place, error) {
	wait := s.limits.patient
	if s.places.WaitingOf(who) >= flood {
		wait = s.limits.wait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	place, err := s.places.Hold(ctx, who)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, busy("too many requests wait before this one")
	}
	return place, err
}

// refused gives the reason why a key opens nothing, after the address that sent it has waited for its turn.
func (s *Server) refused(x *exchange, reason error) error {
	place, err := s.enter(s.base, admission.Nobody+addressOf(x.c.Context().Conn()).String())
	if err != nil {
		return err
	}
	place.Leave()
	return reason
}

// busy refuses a request that would be served at another time.
func busy(why string) *problem {
	return refuse(http.StatusServiceUnavailable, "busy", "%s; wait as Retry-After says and send it again", why)
}

// sender is in whose name a request waits and is counted: its tenant, the operator, or the address of one without a
// key.
func (x *exchange) sender() string {
	switch {
	case x.caller.Tenant != "":
		return x.caller.Tenant
	case x.caller.Role == ident.RoleRoot:
		return admission.Nobody + "root"
	}
	return admission.Nobody + addressOf(x.c.Context().Conn()).String()
}

// connection is the one that the request came on.
func (x *exchange) connection() *conn { return x.c.Context().Conn().(*conn) }

// heldAnswer is the length of an answer, in bytes, from which it counts as long until its client has taken it.
const heldAnswer = 64 << 10

// holdAnswer counts a long answer against the budget until it is written. A request that has changed nothing is refused
// where it does not fit; any other is answered all the same.
func (x *exchange) holdAnswer() error {
	r := x.c.Response()
	if x.err != nil || len(r.Body()) < heldAnswer {
		return nil
	}
	held := lease{of: x.s.bytes, tenant: x.sender()}
	size := int64(2 * len(r.Body())) // as it grew, its buffer had room for twice as much
	if x.c.Method() != http.MethodGet {
		held.force(size)
	} else if !held.grow(size) {
		return busy("too many long answers are on their way")
	}
	x.connection().keep(held)
	return nil
}
