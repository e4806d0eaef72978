package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-0906e6bc/mneme/engine/gateway/relay"
)

// proxyMetrics counts calls to providers.
type proxyMetrics struct {
	calls     *prometheus.CounterVec
	firstByte *prometheus.HistogramVec
	ends      *prometheus.CounterVec
	stored    *prometheus.CounterVec
	tools     *prometheus.CounterVec
}

func newProxyMetrics(registry *prometheus.Registry) *proxyMetrics {
	m := &proxyMetrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mneme_proxy_calls_total",
			Help: "Calls to providers, by protocol, mode and the provider's status, which is none if it did not answer.",
		}, []string{"protocol", "mode", "status"}),
		firstByte: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mneme_proxy_upstream_seconds",
			Help:    "Time until a provider's response begins.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600},
		}, []string{"protocol"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mneme_proxy_streams_total",
			Help: "Streams of providers, by how they ended: whole, client_gone, stopped or broken.",
		}, []string{"protocol", "end"}),
	}
	m.stored = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mneme_proxy_exchanges_total",
		Help: "Model calls of sessions, by whether they were stored: yes, pending, or why not.",
	}, []string{"stored"})
	m.tools = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mneme_proxy_tool_calls_total",
		Help: "Memory tools that models called through the proxy, by tool and result: ok, refused or failed.",
	}, []string{"tool", "result"})
	registry.MustRegister(m.calls, m.firstByte, m.ends, m.stored, m.tools)
	return m
}

// called counts a call whose provider has started to respond, or has failed to.
func (m *proxyMetrics) called(call *modelCall, resp *http.Response, took time.Duration) {
	status := "none"
	if resp != nil {
		status = strconv.Itoa(resp.StatusCode)
		m.firstByte.WithLabelValues(string(call.upstream.Protocol)).Observe(took.Seconds())
	}
	m.calls.WithLabelValues(string(call.upstream.Protocol), call.mode, status).Inc()
}

// streamed counts the end of a stream.
func (m *proxyMetrics) streamed(call *modelCall, err error) {
	end := "broken"
	switch {
	case err == nil:
		end = "whole"
	case errors.Is(err, relay.ErrClientGone) || errors.Is(err, errGone):
		end = "client_gone"
	case call.ctx.Err() != nil:
		end = "stopped"
	}
	m.ends.WithLabelValues(string(call.upstream.Protocol), end).Inc()
}
