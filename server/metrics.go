package server

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// metrics holds the data of /metrics: the server's own counters, and collectors for the Go runtime and the process.
type metrics struct {
	inFlight, streams atomic.Int64

	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	proxy    *proxyMetrics
}

// newMetrics returns the counters of one server. Each server has a separate registry, because tests run several
// servers in one process.
func newMetrics(version string) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mneme_http_requests_total",
			Help: "Completed requests, by route and status.",
		}, []string{"method", "route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mneme_http_request_duration_seconds",
			Help:    "Time from a request's headers to its response.",
			Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"method", "route"}),
	}
	m.proxy = newProxyMetrics(m.registry)
	gauge := func(name, help string, value func() float64, labels prometheus.Labels) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value)
	}
	m.registry.MustRegister(m.requests, m.duration,
		gauge("mneme_http_requests_in_flight", "Requests in progress.",
			func() float64 { return float64(m.inFlight.Load()) }, nil),
		gauge("mneme_http_streams_open", "Open streams.",
			func() float64 { return float64(m.streams.Load()) }, nil),
		gauge("mneme_build_info", "The running version.",
			func() float64 { return 1 }, prometheus.Labels{"version": version}),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// watch registers the metrics of the server's load.
func (s *Server) watch() {
	open := func() float64 { n, _ := s.connections.figures(); return float64(n) }
	shed := func() float64 { _, n := s.connections.figures(); return float64(n) }
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	s.metrics.registry.MustRegister(
		gauge("mneme_http_connections_open", "Connections now.", open),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "mneme_http_connections_shed_total",
			Help: "Idle or slow connections that were closed to accept others."}, shed),
		gauge("mneme_http_requests_waiting", "Requests that are waiting for a slot.",
			func() float64 { return float64(s.places.Waiting()) }),
		gauge("mneme_http_bytes_held", "Memory reserved for bodies and long responses.",
			func() float64 { return float64(s.bytes.held()) }))
}

// watchWindows registers the sums over all windows, which show how much a provider's cache can save.
func (s *Server) watchWindows() {
	c := &s.engine.Windows.Counts
	for _, of := range []struct {
		name, help string
		value      *atomic.Uint64
	}{
		{"mneme_windows_total", "Windows that were returned.", &c.Windows},
		{"mneme_windows_compared_total", "Windows with a previous window for the same session, viewer and format.",
			&c.Compared},
		{"mneme_windows_cut_total", "Windows that do not begin with the whole history of the previous one.", &c.Cut},
		{"mneme_windows_before_tokens_total", "Tokens of the previous windows.", &c.BeforeTokens},
		{"mneme_windows_prefix_tokens_total", "Tokens of the prefixes that windows share with the previous one.", &c.SharedTokens},
		{"mneme_windows_thinking_left_out_total", "Thinking blocks that a provider would have refused.", &c.LeftOut},
	} {
		s.metrics.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: of.name, Help: of.help},
			func() float64 { return float64(of.value.Load()) }))
	}
}

// storeFigures collects the store's own metrics.
type storeFigures func() []store.Figure

// Describe sends nothing, because the metrics differ between kinds of stores.
func (storeFigures) Describe(chan<- *prometheus.Desc) {}

func (figures storeFigures) Collect(out chan<- prometheus.Metric) {
	for _, f := range figures() {
		sort := prometheus.GaugeValue
		if f.Counter {
			sort = prometheus.CounterValue
		}
		names, values := make([]string, len(f.Labels)), make([]string, len(f.Labels))
		for i, l := range f.Labels {
			names[i], values[i] = l[0], l[1]
		}
		desc := prometheus.NewDesc(f.Name, f.Help, names, nil)
		out <- prometheus.MustNewConstMetric(desc, sort, f.Value, values...)
	}
}

// routeMetrics holds the counters of one route. A counter is created on first use, so that /metrics lists only
// statuses that occurred. It is then kept, because finding it by its labels costs an allocation.
type routeMetrics struct {
	statuses [600]atomic.Pointer[prometheus.Counter] // by status code
	request  func(status int) prometheus.Counter
	duration func() prometheus.Observer
}

// route returns new counters for a route.
func (m *metrics) route(method, path string) *routeMetrics {
	return &routeMetrics{
		request: func(status int) prometheus.Counter {
			return m.requests.WithLabelValues(method, path, strconv.Itoa(status))
		},
		duration: sync.OnceValue(func() prometheus.Observer { return m.duration.WithLabelValues(method, path) }),
	}
}

// observe counts one request and its duration.
func (m *routeMetrics) observe(status int, took time.Duration) {
	kept := &m.statuses[status%len(m.statuses)]
	counter := kept.Load()
	if counter == nil {
		made := m.request(status)
		counter = &made
		kept.Store(counter)
	}
	(*counter).Inc()
	m.duration().Observe(took.Seconds())
}

// exposition returns all metrics in the Prometheus text format.
func (m *metrics) exposition() ([]byte, error) {
	families, err := m.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering metrics: %w", err)
	}
	var b bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&b, family); err != nil {
			return nil, fmt.Errorf("writing metrics: %w", err)
		}
	}
	return b.Bytes(), nil
}
