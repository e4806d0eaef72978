package server

import (
	"context"
	"errors"
	"net/http"
	"runtime"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// newPlaces returns the gate that requests pass before the engine works on them. Twice as many work at once as there are
// processors. Those that wait for the disk, the database, a lock or a client have left their places meanwhile.
//
// A tenant that is active alone keeps all processors busy. While several are active, each leaves one processor free,
// because Go lets a running request finish its ten milliseconds before it gives the processor to another. Then at most as
// many of a tenant's requests are inside as there are processors, including those that wait for the disk: a commit wakes
// all that it holds at once, and they would go before the next tenant. The rest wait, each tenant in its own line, and the
// lines take turns. So a flood slows down its sender.
func newPlaces() *admission.Gate {
	processors := runtime.GOMAXPROCS(0)
	places := admission.NewGate(2*processors, min(processors+1, 2*processors-1))
	places.Crowd(max(1, processors-1), processors)
	// The work of the database and the garbage collector for a flood takes about as much again as its requests, so the
	// requests may take half of the time. With few processors, that work falls on the one that is left free, and the
	// flood rests longer.
	places.Pace(flood, max(1, 5-processors))
	return places
}

// newFeeds returns the gate that streams of events pass for each look at the store. It has half as many places as there
// are processors, and tenants take turns, so a tenant with many streams delays only its own.
func newFeeds() *admission.Gate {
	n := max(1, runtime.GOMAXPROCS(0)/2)
	return admission.NewGate(n, n)
}

// flood is how many requests of one sender must wait before the next is refused soon. A client that sends fewer at once
// is served late on a busy machine rather than refused.
const flood = 32

// enter waits for a place. It returns the problem busy if none becomes free in time.
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

// refused returns why a key was refused, after the address that sent it has waited for its turn.
func (s *Server) refused(x *exchange, reason error) error {
	place, err := s.enter(s.base, admission.Nobody+addressOf(x.c.Context().Conn()).String())
	if err != nil {
		return err
	}
	place.Leave()
	return reason
}

// busy refuses a request that would succeed at another time.
func busy(why string) *problem {
	return refuse(http.StatusServiceUnavailable, "busy", "%s; wait as Retry-After says and send it again", why)
}

// sender returns who a request waits and counts for: its tenant, the operator, or the client's address if it has no key.
func (x *exchange) sender() string {
	switch {
	case x.caller.Tenant != "":
		return x.caller.Tenant
	case x.caller.Role == ident.RoleRoot:
		return admission.Nobody + "root"
	}
	return admission.Nobody + addressOf(x.c.Context().Conn()).String()
}

// connection returns the connection of the request.
func (x *exchange) connection() *conn { return x.c.Context().Conn().(*conn) }

// heldAnswer is the length, in bytes, from which an answer counts against the memory budget until its client has read it.
const heldAnswer = 64 << 10

// holdAnswer counts a long answer against the budget until it is written. If it does not fit, a GET is refused; any other
// request may have changed something, so it is answered anyway.
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
