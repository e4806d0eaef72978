package server

import (
	"context"
	"errors"
	"net/http"
	"runtime"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// newPlaces returns the gate that requests pass before the engine works on them. It admits twice as many requests as
// there are processors. A request that waits for the disk, the database, a lock or a client gives up its place
// meanwhile.
//
// If only one tenant is active, it may keep all processors busy. If several are active, each leaves one processor
// free, because Go lets a running request finish its ten milliseconds before it gives the processor to another. Each
// tenant then has at most one request per processor inside, including requests that wait for the disk: a commit wakes
// all requests that wait for it at once, and they would run before the next tenant's. The other requests wait in one
// queue per tenant, and the queues take turns. So a flood slows down only its sender.
func newPlaces() *admission.Gate {
	processors := runtime.GOMAXPROCS(0)
	places := admission.NewGate(2*processors, min(processors+1, 2*processors-1))
	places.Crowd(max(1, processors-1), processors)
	// The database and the garbage collector work about as long on a flood as its requests do, so the requests may
	// take half of the time. With few processors, that work runs on the processor that is left free, and the flood
	// pauses longer.
	places.Pace(flood, max(1, 5-processors))
	return places
}

// newFeeds returns the gate that event streams pass each time they read the store. It has half as many places as
// there are processors. Tenants take turns, so a tenant with many streams delays only itself.
func newFeeds() *admission.Gate {
	n := max(1, runtime.GOMAXPROCS(0)/2)
	return admission.NewGate(n, n)
}

// flood is the number of waiting requests from which a sender's next request is refused soon. Clients that send fewer
// at once are served late on a busy machine, but not refused.
const flood = 32

// enter waits for a place. It fails with busy if none becomes free in time.
func (s *Server) enter(ctx context.Context, who string) (*admission.Place, error) {
	wait := s.limits.patient
	if s.places.WaitingOf(who) >= flood {
		wait = s.limits.wait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	place, err := s.places.Hold(ctx, who)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, busy("too many requests are already waiting")
	}
	return place, err
}

// refused returns the reason why a key was refused, after the address that sent it has waited for its turn.
func (s *Server) refused(x *exchange, reason error) error {
	place, err := s.enter(s.base, admission.Nobody+addressOf(x.c.Context().Conn()).String())
	if err != nil {
		return err
	}
	place.Leave()
	return reason
}

// busy returns the problem for a request that would succeed at another time.
func busy(why string) *problem {
	return refuse(http.StatusServiceUnavailable, "busy", "%s; wait for the time in Retry-After and send it again", why)
}

// sender returns the party whose queue and limits apply to a request: its tenant, the operator, or the client's
// address if the request has no key.
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

// heldAnswer is the response length, in bytes, from which a response counts against the memory budget until its
// client has read it.
const heldAnswer = 64 << 10

// holdAnswer counts a long response against the budget until it is written. If the response does not fit, holdAnswer
// refuses a GET. Any other request may have changed something, so its response is sent anyway.
func (x *exchange) holdAnswer() error {
	r := x.c.Response()
	if x.err != nil || len(r.Body()) < heldAnswer {
		return nil
	}
	held := lease{of: x.s.bytes, tenant: x.sender()}
	size := int64(2 * len(r.Body())) // a buffer that grows may be twice as long as its content
	if x.c.Method() != http.MethodGet {
		held.force(size)
	} else if !held.grow(size) {
		return busy("too many long responses are being sent")
	}
	x.connection().keep(held)
	return nil
}
