// Package server is the HTTP server. routes.go has the table of all routes, edge.go the steps of every request, and
// problem.go the table from errors to statuses. The server authenticates the caller, decodes the request, and passes
// both to the engine. A handler is in the file that is named after the resource in its path, such as turns.go.
//
// Fiber reuses the memory of a request for later ones. Handlers must therefore copy what they take from the request;
// the methods path, query and queries return copies.
package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/gateway/relay"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
	"github.com/seed-0906e6bc/mneme/server/mcp"
)

// Options configures a Server.
type Options struct {
	Engine *engine.Engine
	Logger *slog.Logger // for the access log and internal errors; nil: none
	// LogSample is the share of successful requests in the access log, from 0 to 1. Statuses from 400 are always
	// logged.
	LogSample float64
	Version   string // as /healthz and /metrics show it
	// RateLimit limits the requests of each tenant; the zero value means no limit.
	RateLimit RateLimit
	// Backup writes a backup of the store; nil: the store's database has its own backups.
	Backup BackupFunc
	// Console is the built console; nil: not served. ConsoleRoot lets the root key sign in to it.
	Console     fs.FS
	ConsoleRoot bool
	// Now and Random are the clock for latencies and the source of request ids; nil: the system's.
	Now    func() time.Time
	Random io.Reader
}

// Server serves the HTTP API of one engine.
type Server struct {
	engine      *engine.Engine
	log         *slog.Logger
	access      accessLog
	version     string
	now         func() time.Time
	limits      limits
	app         *fiber.App
	rates       rates
	places      *admission.Gate
	feeds       *admission.Gate // for event streams: idle ones must not count as active tenants
	bytes       *budget
	following   *budget // the number of open streams per tenant
	sockets     *budget // the number of calls to upstreams per tenant
	spools      *budget // the number of uploads that are spooled to disk per tenant
	shares      atomic.Pointer[descriptors]
	connections *connections
	routes      []*route
	noRoute     *route
	described   described
	errorPage   []byte // as /errors serves it
	mcp         *mcp.Server
	console     *console // nil: not served
	upstreams   *relay.Clients
	late        sync.WaitGroup // ends of model calls that are being recorded
	streaming   sync.WaitGroup // connections that a stream has or had last
	pieces      sync.Pool      // of *piece

	metrics   *metrics
	exchanges sync.Pool
	idPrefix  string
	lastID    atomic.Uint64

	// base is the context of all requests; it ends when the server stops waiting for them. streams is the context of
	// streamed responses; it ends as soon as the server starts to stop.
	base, streams       context.Context
	stop, stopStreaming context.CancelFunc

	backup    BackupFunc
	backingUp atomic.Bool
}

// limits holds the limits of what one client can use.
type limits struct {
	body    int           // size of a request body
	header  int           // size of a request line and headers
	headers time.Duration // from the first byte of a request to the end of its headers
	read    time.Duration // from the end of the headers to the last byte
	idle    time.Duration // between two requests on a connection
	write   time.Duration // from the first byte of a response to the last
	request time.Duration // in the engine
	commit  time.Duration // to store a streamed response before its client gets the end
	linger  time.Duration // to read and discard the rest of a refused upload, after the response
	drain   time.Duration // for running requests when the server stops
	wait    time.Duration // in the queue, if many of the sender's requests wait
	patient time.Duration // in the queue, if few wait, which is not a flood
	taking  time.Duration // to read a response before the connection may be closed to free capacity

	connections int   // in all
	descriptors int   // files and connections that the process may have open; 0: any number
	bytes       int64 // memory for bodies and long responses

	heartbeat time.Duration // between two keep-alive comments on a stream
	poll      time.Duration // between two checks of the key and of a followed board, which another process may change
	stall     time.Duration // for a stream's reader to take what was written
}

func defaultLimits() limits {
	return limits{body: defaultMaxBody, header: 16 << 10, headers: 20 * time.Second, read: time.Minute,
		idle: 2 * time.Minute, write: 2 * time.Minute, request: 30 * time.Second,
		commit: 2 * time.Second, linger: 5 * time.Second, drain: 20 * time.Second,
		wait: time.Second, patient: 10 * time.Second, taking: 5 * time.Second,
		connections: defaultConnections(), descriptors: maxDescriptors(), bytes: defaultBudget(),
		heartbeat: 15 * time.Second, poll: 500 * time.Millisecond, stall: 30 * time.Second}
}

// New returns a server. The caller closes what is below the engine after Serve has returned.
func New(o Options) (*Server, error) { return newServer(o, defaultLimits()) }

func newServer(o Options, l limits) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	s := &Server{engine: o.Engine, log: o.Logger, access: accessLog{Logger: o.Logger, sample: o.LogSample}, version: o.Version, now: o.Now, limits: l, backup: o.Backup,
		metrics: newMetrics(o.Version), places: newPlaces(), feeds: newFeeds(), bytes: newBudget(l.bytes),
		following: newBudget(0), sockets: newBudget(0), spools: newBudget(maxSpools),
		connections: &connections{log: o.Logger, taking: l.taking, addresses: map[netip.Prefix]*address{}}}
	s.watch()
	s.watchWindows()
	s.metrics.registry.MustRegister(storeFigures(o.Engine.Figures), proxyCounts(o.Engine.Outbound.Figures))
	s.rates.limit = o.RateLimit
	s.mcp = mcp.New(mcp.DescribeAll(tools.All()), o.Version, o.Logger)
	s.upstreams = relay.NewClients(o.Engine.Projects.Operator.Allowed, o.Engine.Tenants.HoldsKey)
	s.upstreams.Reserve = s.reserveSocket
	s.shareDescriptors()
	s.watchDescriptors()
	if d := l.descriptors; d > 0 && d < fewDescriptors {
		s.log.Warn("the limit on open files is low", "limit", d, "clients", s.shares.Load().clients,
			"upstreams", s.shares.Load().upstreams)
	}
	s.exchanges.New = func() any { return new(exchange) }
	s.pieces.New = func() any { return new(piece) }
	s.base, s.stop = context.WithCancel(context.Background())
	s.streams, s.stopStreaming = context.WithCancel(s.base)

	var prefix [8]byte
	if _, err := io.ReadFull(o.Random, prefix[:]); err != nil {
		return nil, fmt.Errorf("making request ids: %w", err)
	}
	s.idPrefix = "req_" + hex.EncodeToString(prefix[:]) + "_"

	d, err := description()
	if err != nil {
		return nil, err
	}
	s.described, s.errorPage = d, errorPage()
	s.app = fiber.New(fiber.Config{
		DisableStartupMessage:        true,
		CaseSensitive:                true,
		StrictRouting:                true,
		StreamRequestBody:            true, // the body is read after the caller is authenticated
		DisablePreParseMultipartForm: true,
		BodyLimit:                    l.body,
		ReadBufferSize:               l.header,
		WriteBufferSize:              responseBuffer,
		ReadTimeout:                  l.headers,
		IdleTimeout:                  l.idle,
		WriteTimeout:                 l.write,
		ErrorHandler:                 s.unrouted,
		RequestMethods:               append(slices.Clone(fiber.DefaultMethods), "QUERY"),
	})
	if o.Console != nil {
		if s.console, err = newConsole(o.Console, o.ConsoleRoot, s.metrics); err != nil {
			return nil, fmt.Errorf("listing the console's files: %w", err)
		}
	}
	s.register(d)
	fast := s.app.Server()
	fast.CloseOnShutdown, fast.KeepHijackedConns = true, true
	fast.ConnState = s.connections.changed
	fast.HeaderReceived = func(*fasthttp.RequestHeader) fasthttp.RequestConfig {
		return fasthttp.RequestConfig{ReadTimeout: l.read}
	}
	fast.Handler = s.wellFormed(fast.Handler)
	return s, nil
}

// wellFormed refuses requests that two servers in a row could read differently. It also answers method_unknown for
// methods that Fiber does not know, because Fiber's own response is not a problem.
func (s *Server) wellFormed(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	methods := s.app.Config().RequestMethods
	return func(ctx *fasthttp.RequestCtx) {
		c := ctx.Conn().(*conn)
		c.is(working)
		defer func() {
			if !ctx.Hijacked() { // otherwise it belongs to a stream, or is about to be closed
				c.is(sending)
			}
			c.overflows = overflows(ctx)
		}()
		err := checkFraming(&ctx.Request)
		if err != nil {
			ctx.SetConnectionClose()
		} else if !slices.Contains(methods, string(ctx.Method())) {
			err = refuse(http.StatusNotImplemented, "method_unknown", "no route takes that method")
		}
		if err == nil {
			withoutSlash(ctx.URI())
			next(ctx)
			return
		}
		asFiber := s.app.AcquireCtx(ctx)
		defer s.app.ReleaseCtx(asFiber)
		_ = s.unrouted(asFiber, err)
	}
}

// withoutSlash removes the slash at the end of a path of the proxy. Some clients write their base URL with one.
func withoutSlash(uri *fasthttp.URI) {
	path := uri.PathOriginal()
	if (bytes.HasPrefix(path, []byte("/v1/")) || bytes.HasPrefix(path, []byte("/p/"))) && path[len(path)-1] == '/' {
		uri.SetPathBytes(bytes.Clone(path[:len(path)-1]))
	}
}

// Serve serves requests on ln until ctx ends. Then it accepts no more and waits for running requests, for at most
// limits.drain; the error says how many did not finish. Serve may be called once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	defer s.stop()
	var counting sync.WaitGroup
	defer counting.Wait()
	counting.Go(func() { s.recount(s.streams) })
	defer s.stopStreaming()
	served := make(chan error, 1)
	go func() { served <- s.app.Listener(listener{ln, s.connections}) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	s.log.Info("stopping", "in_flight", s.metrics.inFlight.Load(), "streams", s.metrics.streams.Load())
	s.stopStreaming()
	defer s.late.Wait()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limits.drain)
	defer cancel()
	err := s.app.ShutdownWithContext(drain)
	if err == nil {
		err = await(drain, &s.streaming)
	}
	_ = ln.Close() // Fiber closes a listener only after it has started to serve it; closing twice does no harm
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%d requests and %d streams did not finish within %s", s.metrics.inFlight.Load(),
			s.metrics.streams.Load(), s.limits.drain)
	}
	<-served
	return nil
}

// await waits for a group or for the end of ctx, and returns the error of ctx.
func await(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		group.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
