package server

import (
	"context"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// minStoreDescriptors is the minimum number of file descriptors reserved for the store. Badger keeps one open for
	// each of its files.
	minStoreDescriptors = 256
	// fewDescriptors is the limit on open files below which the server warns at the start.
	fewDescriptors = 1024
	// maxSpools is the number of uploads that may be spooled to disk at once.
	maxSpools = 16
	// recountTime is the time between two counts of the store's tables.
	recountTime = time.Minute
)

// descriptors is a division of the file descriptors that a process may have open.
type descriptors struct {
	store     int // the store's files
	clients   int // connections of clients
	upstreams int // connections to upstreams, idle ones included
	other     int // compilers, spooled uploads, the operator's providers
}

// divideDescriptors divides a number of descriptors, while the store has so many tables. The store gets twice as many
// as it has tables, because a compaction holds the old and the new ones.
func divideDescriptors(all, tables, processors int) descriptors {
	d := descriptors{
		store: max(minStoreDescriptors, 2*tables+64),
		// Six for each compiler; see hostapi.Limits for their number.
		other: 36 + 6*max(2, processors/2),
	}
	rest := all - d.store
	d.clients = max(16, 2*rest/3)
	d.upstreams = max(8, rest-2*rest/3-d.other)
	return d
}

// shareDescriptors counts the store's tables and sets the number of connections accordingly.
func (s *Server) shareDescriptors() {
	d := descriptors{clients: s.limits.connections, upstreams: s.limits.connections}
	if s.limits.descriptors > 0 {
		tables, _ := s.engine.Tables()
		d = divideDescriptors(s.limits.descriptors, tables, runtime.GOMAXPROCS(0))
		d.clients = min(d.clients, s.limits.connections)
	}
	s.connections.resize(d.clients)
	s.following.resize(int64(d.clients))
	s.sockets.resize(int64(d.upstreams))
	s.upstreams.Limit(d.upstreams)
	s.shares.Store(&d)
}

// recount shares the descriptors again from time to time, until ctx ends.
func (s *Server) recount(ctx context.Context) {
	tick := time.NewTicker(recountTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.shareDescriptors()
		}
	}
}

// reserveSocket takes a connection to an upstream for a call of a tenant, or returns false if the tenant has its share.
func (s *Server) reserveSocket(tenant string) (release func(), ok bool) {
	held := lease{of: s.sockets, tenant: tenant}
	return held.release, held.grow(1)
}

// watchDescriptors registers the metrics of file descriptors.
func (s *Server) watchDescriptors() {
	gauge := func(name, help, use string, value func() float64) {
		s.metrics.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help,
			ConstLabels: prometheus.Labels{"use": use}}, value))
	}
	const used, most = "mneme_descriptors", "mneme_descriptors_max"
	const usedHelp = "File descriptors in use. Those of the store are its tables."
	const mostHelp = "File descriptors that each use may have."
	if _, ok := s.engine.Tables(); ok {
		gauge(used, usedHelp, "store", func() float64 { n, _ := s.engine.Tables(); return float64(n) })
	}
	gauge(used, usedHelp, "clients", func() float64 { n, _ := s.connections.figures(); return float64(n) })
	gauge(used, usedHelp, "upstreams", func() float64 { return float64(s.upstreams.Open()) })
	if s.limits.descriptors == 0 {
		return
	}
	for use, of := range map[string]func(*descriptors) int{
		"store":     func(d *descriptors) int { return d.store },
		"clients":   func(d *descriptors) int { return d.clients },
		"upstreams": func(d *descriptors) int { return d.upstreams },
		"other":     func(d *descriptors) int { return d.other },
	} {
		gauge(most, mostHelp, use, func() float64 { return float64(of(s.shares.Load())) })
	}
}
