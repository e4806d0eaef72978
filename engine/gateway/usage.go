package gateway

import (
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// usageRefused is the reason of a retry without the request for the usage of a stream.
const usageRefused = "usage_refused"

// refusing is a model at a provider that refuses requests for the usage of a stream.
type refusing struct {
	project         ident.Incarnation
	upstream, model string
}

// How many such models are remembered, and for how long. A provider can only make Mneme add less to calls to itself.
const (
	maxRefusing  = 1000
	refusingLife = 24 * time.Hour
)

func (out *Outgoing) refusing() refusing {
	return refusing{out.project.Incarnation, out.call.Upstream, out.call.Model}
}

// Accepted records that the provider accepted the body returned by Again.
func (svc *Service) Accepted(out *Outgoing) {
	if out.call.Retried != usageRefused {
		return
	}
	svc.mu.Lock()
	defer svc.mu.Unlock()
	if svc.refuse == nil || len(svc.refuse) >= maxRefusing {
		svc.refuse = map[refusing]time.Time{}
	}
	svc.refuse[out.refusing()] = svc.db.Now().Add(refusingLife)
}

// refusesUsage reports whether the provider has refused requests for the usage lately.
func (svc *Service) refusesUsage(out *Outgoing) bool {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	return svc.db.Now().Before(svc.refuse[out.refusing()])
}
