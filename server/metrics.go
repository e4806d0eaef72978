package server

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"time"
)

// latencyBounds are the upper bounds of the latency histogram's buckets.
var latencyBounds = [...]time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 10 * time.Second,
}

// metrics are the server's own counters. Counting is a few atomic additions; the text is made when it is asked for.
type metrics struct{ inFlight, streams atomic.Int64 }

// routeMetrics are the counters of one route.
type routeMetrics struct {
	statuses [600]atomic.Uint64 // by status code
	buckets  [len(latencyBounds) + 1]atomic.Uint64
	nanos    atomic.Int64
}

func (m *routeMetrics) observe(status int, took time.Duration) {
	m.statuses[status%len(m.statuses)].Add(1)
	i := 0
	for i < len(latencyBounds) && took > latencyBounds[i] {
		i++
	}
	m.buckets[i].Add(1)
	m.nanos.Add(int64(took))
}

// exposition writes all metrics in Prometheus' text format.
func (s *Server) exposition() []byte {
	var b bytes.Buffer
	b.WriteString("# HELP mneme_http_requests_total Requests answered, by route and status.\n" +
		"# TYPE mneme_http_requests_total counter\n")
	for _, r := range s.counted() {
		for status := range r.metrics.statuses {
			if n := r.metrics.statuses[status].Load(); n > 0 {
				fmt.Fprintf(&b, "mneme_http_requests_total{method=%q,route=%q,status=\"%d\"} %d\n",
					r.method, r.path, status, n)
			}
		}
	}
	b.WriteString("# HELP mneme_http_request_duration_seconds Time from a request's headers to its answer.\n" +
		"# TYPE mneme_http_request_duration_seconds histogram\n")
	for _, r := range s.counted() {
		r.histogram(&b)
	}
	fmt.Fprintf(&b, "# HELP mneme_http_requests_in_flight Requests being answered now.\n"+
		"# TYPE mneme_http_requests_in_flight gauge\nmneme_http_requests_in_flight %d\n", s.metrics.inFlight.Load())
	fmt.Fprintf(&b, "# HELP mneme_http_streams_open Answers being streamed now.\n"+
		"# TYPE mneme_http_streams_open gauge\nmneme_http_streams_open %d\n", s.metrics.streams.Load())
	fmt.Fprintf(&b, "# HELP mneme_build_info The version that runs.\n"+
		"# TYPE mneme_build_info gauge\nmneme_build_info{version=%q} 1\n", s.version)
	return b.Bytes()
}

func (r *route) histogram(b *bytes.Buffer) {
	var total uint64
	var cumulative [len(latencyBounds) + 1]uint64
	for i := range r.metrics.buckets {
		total += r.metrics.buckets[i].Load()
		cumulative[i] = total
	}
	if total == 0 {
		return
	}
	const name = "mneme_http_request_duration_seconds"
	labels := fmt.Sprintf("method=%q,route=%q", r.method, r.path)
	for i, bound := range latencyBounds {
		fmt.Fprintf(b, "%s_bucket{%s,le=\"%g\"} %d\n", name, labels, bound.Seconds(), cumulative[i])
	}
	fmt.Fprintf(b, "%s_bucket{%s,le=\"+Inf\"} %d\n", name, labels, total)
	fmt.Fprintf(b, "%s_sum{%s} %g\n", name, labels, time.Duration(r.metrics.nanos.Load()).Seconds())
	fmt.Fprintf(b, "%s_count{%s} %d\n", name, labels, total)
}

// counted are the routes, and the one that stands for requests without a route.
func (s *Server) counted() []*route { return append(s.routes[:len(s.routes):len(s.routes)], s.noRoute) }
