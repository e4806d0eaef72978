package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/gateway/relay"
)

// accessLog writes a line for each failed request and for a sample of the successful ones.
type accessLog struct {
	*slog.Logger
	sample    float64       // the share of successful requests that is logged, from 0 to 1
	successes atomic.Uint64 // the number of successful requests so far
}

// logLine is a line of the access log. It never holds a secret, a body or a query string.
type logLine struct {
	id, method, route, path string
	tenant, key, decision   string

	status   int
	bytes    int64 // bytes of the response body that were written
	duration time.Duration
	err      error // set only if the client was not told the cause
}

// log writes the line of a request that has ended.
func (x *exchange) log(status, size int, took time.Duration) {
	err := x.err
	if !isInternal(err, status) {
		err = nil
	}
	level := x.route.logLevel(status, err)
	if !x.s.access.picks(level, status) {
		return
	}
	l := x.logLine()
	l.status = status
	l.bytes = int64(size)
	l.duration = took
	l.err = err
	x.s.access.write(level, "request", &l)
}

// logLine describes the request without its outcome. It copies strings whose memory Fiber reuses.
func (x *exchange) logLine() logLine {
	l := logLine{id: x.id, method: strings.Clone(x.c.Method()), route: x.route.path,
		path: string(x.c.Request().URI().PathOriginal()), tenant: x.caller.Tenant, key: x.caller.KeyID,
		decision: x.decision}
	if x.s.engine.Tenants.HoldsKey(l.path) {
		l.path = l.route
	}
	if l.decision == "" {
		l.decision = string(x.c.Response().Header.Peek(headerDecision))
	}
	return l
}

// isInternal reports whether err is a server failure whose cause the client does not see.
func isInternal(err error, status int) bool {
	_, isProblem := errors.AsType[*problem](err)
	_, isRefusal := errors.AsType[*relay.Refusal](err)
	return err != nil && !isProblem && !isRefusal && status >= http.StatusInternalServerError
}

// logLevel returns the level at which a request is logged.
func (r *route) logLevel(status int, internal error) slog.Level {
	switch {
	case internal != nil:
		return slog.LevelError
	case status >= http.StatusInternalServerError:
		return slog.LevelWarn
	case status >= http.StatusBadRequest || !r.quiet:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// picks reports whether to log a request. The sample is spread evenly over the successful requests, in whatever order
// they come.
func (l *accessLog) picks(level slog.Level, status int) bool {
	switch {
	case !l.Enabled(context.Background(), level):
		return false
	case status >= http.StatusBadRequest || l.sample >= 1:
		return true
	case l.sample <= 0:
		return false
	}
	const bits = 53 // the precision of a float64
	return float64(mix(l.successes.Add(1))>>(64-bits))/(1<<bits) < l.sample
}

// mix maps a counter to evenly distributed values. It is the SplitMix64 generator.
func mix(n uint64) uint64 {
	n *= 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// write writes a line. It omits empty fields.
func (l *accessLog) write(level slog.Level, message string, line *logLine) {
	attrs := make([]slog.Attr, 0, 11)
	attrs = append(attrs,
		slog.String("request_id", line.id),
		slog.String("method", line.method),
		slog.String("route", line.route),
		slog.String("path", line.path),
		slog.Int("status", line.status),
		slog.Int64("bytes", line.bytes),
		slog.Float64("duration_ms", float64(line.duration.Microseconds())/1000),
	)
	for _, a := range [...]slog.Attr{
		slog.String("tenant", line.tenant),
		slog.String("key", line.key),
		slog.String("decision_id", line.decision),
	} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	if line.err != nil {
		attrs = append(attrs, slog.Any("error", line.err))
	}
	l.LogAttrs(context.Background(), level, message, attrs...)
}

// logStream writes the line of a streamed response that has ended, or that broke off with err. lost says that writing
// to the reader failed.
func (l *accessLog) logStream(r *route, line *logLine, lost bool, err error) {
	switch {
	case err == nil:
		if level := r.logLevel(line.status, nil); l.picks(level, line.status) {
			l.write(level, "request", line)
		}
	case lost || errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed):
		// The reader left, or the server is stopping.
		line.err = err
		l.write(slog.LevelInfo, "a stream broke off", line)
	default:
		line.err = err
		l.write(slog.LevelError, "a stream broke off", line)
	}
}
