package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/model2vec"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/memory/snowball"
	"github.com/seed-0906e6bc/mneme/engine/message/tiktoken"
	"github.com/seed-0906e6bc/mneme/engine/openai"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
	"github.com/seed-0906e6bc/mneme/engine/store/pgstore"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
	"github.com/seed-0906e6bc/mneme/hostapi"
	"github.com/seed-0906e6bc/mneme/policies"
	"github.com/seed-0906e6bc/mneme/server"
	"github.com/seed-0906e6bc/mneme/web"
)

// backgroundTick is the interval at which the engine looks for due background work.
const backgroundTick = time.Minute

// serve runs the server until ctx ends.
func serve(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) error {
	c, err := readConfig(args, env, stderr)
	if err != nil {
		return err
	}
	log := c.Log.logger(stderr)
	limitMemory(env, os.DirFS("/"), log)
	go limitGarbage(ctx, env)
	go giveBack(ctx)
	// Listen first, to detect an address in use at once; opening a database can take long.
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err // the error contains the address
	}
	defer ln.Close()
	if c.DebugListen != "" {
		stop, err := serveDebug(c.DebugListen, log)
		if err != nil {
			return err
		}
		defer stop()
	}
	return withEngine(ctx, c, log, func(e *engine.Engine, stored store.Store, firstKey string) error {
		options := server.Options{Engine: e, Logger: log, LogSample: c.Log.Sample, Version: version(), Backup: backupOf(stored, log),
			RateLimit:   server.RateLimit{PerSecond: c.RateLimit, Burst: c.RateBurst},
			ConsoleRoot: c.ConsoleRoot}
		if !c.NoConsole {
			options.Console = web.Dist()
		}
		s, err := server.New(options)
		if err != nil {
			return err
		}
		url := "http://" + ln.Addr().String()
		if firstKey != "" {
			link := ""
			if !c.NoConsole {
				made, err := e.Tenants.MakeSignInLink(ctx, firstKey)
				if err != nil {
					return fmt.Errorf("making a link to the console: %w", err)
				}
				link = made.Link
			}
			greet(stdout, ln.Addr(), keyFile(c.Data), firstKey, link)
		}
		// Connections already queue at the listener, so requests from here on are served.
		c.Log.announce(stderr, "listening on "+url)
		if c.Demo {
			filling, stop := context.WithCancel(ctx)
			var running sync.WaitGroup
			running.Go(func() { fillOwn(filling, url, keyFile(c.Data), log) })
			defer running.Wait()
			defer stop()
		}
		defer addProcessor(env)()
		return s.Serve(ctx, ln)
	})
}

// addProcessor lets Go run one thread more than the machine has processors, until restore is called. Go checks for
// arrived requests when a thread is idle, or else every ten milliseconds. If work keeps one thread per processor
// busy, the extra thread is idle, and the system runs it as soon as a request arrives. Limits that depend on the
// number of processors are computed before. GOMAXPROCS, which Go reads itself, takes precedence.
func addProcessor(env lookup) (restore func()) {
	if said, _ := env("GOMAXPROCS"); said != "" {
		return func() {}
	}
	processors := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(processors + 1)
	return func() { runtime.GOMAXPROCS(processors) }
}

// withEngine opens everything below the HTTP server, calls serve with it while background work runs, and closes all
// in reverse order.
func withEngine(
	ctx context.Context, c config, log *slog.Logger, serve func(e *engine.Engine, s store.Store, firstKey string) error,
) (err error) {
	static, err := openStatic(c, log)
	if err != nil {
		return err
	}
	db, err := openStore(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	counter, err := tiktoken.New()
	if err != nil {
		return fmt.Errorf("loading the tokenizers: %w", err)
	}
	words, err := snowball.New()
	if err != nil {
		return fmt.Errorf("loading the stop words: %w", err)
	}
	command, err := compileCommand()
	if err != nil {
		return err
	}
	host, err := hostapi.New(hostapi.Options{Compiler: command, CacheDir: filepath.Join(c.Data, "compiled")})
	if err != nil {
		return fmt.Errorf("starting the sandbox: %w", err)
	}
	// Running requests may outlive ctx, so the sandbox must, too.
	defer func() { err = errors.Join(err, host.Close(context.WithoutCancel(ctx))) }()

	summariser, err := newSummariser(c.Summaries)
	if err != nil {
		return err
	}
	embedder, err := newEmbedder(c.Embeddings)
	if err != nil {
		return err
	}
	key, err := reserveKey(c.Data)
	if err != nil {
		return err
	}
	operator, err := c.Upstreams.operator()
	if err != nil {
		return err
	}
	sealed := store.Seal(pausing(db, c.Store != ""))
	e, made, err := engine.New(ctx, engine.Options{
		Store: sealed, Host: host, Tokens: counter, Analyser: words, BuiltIns: builtIns(), Logger: log,
		Summariser: summariser, Embedder: embedder, Static: static, RootKey: c.RootKey, Defaults: c.Defaults, Upstreams: operator,
		MessageBytes: c.MessageBytes, Memories: c.Memories, SpoolDir: c.Data,
		Alone: c.Store == "", // the embedded database locks its folder
	})
	if err != nil {
		return key.release(fmt.Errorf("starting the engine: %w", err))
	}
	firstKey, err := key.keep(ctx, e, made)
	if err != nil {
		return err
	}

	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { e.Run(background, ticks(background)) })
	defer running.Wait()
	defer stop()
	return serve(e, sealed, firstKey)
}

// pausing lets requests give up their places while they wait for the store. A disk responds soon; for a database over
// the network, the connection pool limits the waiting requests.
func pausing(db store.Store, shared bool) store.Store {
	if shared {
		return store.Pausing(db, true, admission.Pause)
	}
	return store.Pausing(db, false, admission.Depart)
}

// newSummariser returns a nil interface if the operator named no provider. The engine then makes no summaries.
func newSummariser(p providerConfig) (summary.Summariser, error) {
	if !p.given() {
		return nil, nil
	}
	s, err := openai.New(openai.Options{BaseURL: p.URL, APIKey: p.Key, Model: p.Model})
	if err != nil {
		return nil, fmt.Errorf("preparing the provider of summaries: %w", err)
	}
	return s, nil
}

// newEmbedder returns a nil interface if the operator named no provider. Recall then only uses words.
func newEmbedder(p providerConfig) (recall.Embedder, error) {
	if !p.given() {
		return nil, nil
	}
	e, err := openai.NewEmbedder(openai.Options{BaseURL: p.URL, APIKey: p.Key})
	if err != nil {
		return nil, fmt.Errorf("preparing the provider of embeddings: %w", err)
	}
	return e, nil
}

// openStatic reads the static embedding model, if the operator named a folder.
func openStatic(c config, log *slog.Logger) (recall.Static, error) {
	if c.StaticEmbeddings == "" {
		return recall.Static{}, nil
	}
	m, err := model2vec.Open(c.StaticEmbeddings)
	if err != nil {
		return recall.Static{}, fmt.Errorf("--static-embeddings: %w", err)
	}
	log.Info("read the static embedding model", "folder", c.StaticEmbeddings, "dimensions", m.Dimensions())
	return recall.Static{Model: m, Adopt: c.AdoptStatic}, nil
}

// openStore opens the shared database in the configuration, or else the embedded one. It always creates the data
// folder, because compiled policies and the admin key are kept there.
func openStore(ctx context.Context, c config, log *slog.Logger) (store.Store, error) {
	if c.Store != "" {
		if err := os.MkdirAll(c.Data, 0o700); err != nil {
			return nil, fmt.Errorf("making the data folder: %w", err)
		}
		return pgstore.Open(ctx, pgstore.Options{URL: c.Store, Logger: log})
	}
	db, err := badgerstore.Open(badgerstore.Options{Dir: c.Data, Logger: log,
		Memory: debug.SetMemoryLimit(-1), Traces: []string{filepath.Base(keyFile(c.Data))}})
	if errors.Is(err, badgerstore.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", c.Data, badgerstore.ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", c.Data, err)
	}
	return db, nil
}

// builtIns returns the policies that come with Mneme. They are modules like those that tenants upload.
func builtIns() []policy.BuiltIn {
	var out []policy.BuiltIn
	for _, m := range policies.BuiltIn() {
		out = append(out, policy.BuiltIn(m))
	}
	return out
}

// ticks returns a channel that receives a value every backgroundTick until ctx ends.
func ticks(ctx context.Context) <-chan struct{} {
	out := make(chan struct{})
	go func() {
		ticker := time.NewTicker(backgroundTick)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			select {
			case <-ctx.Done():
				return
			case out <- struct{}{}:
			}
		}
	}()
	return out
}

// greet tells a user who started Mneme for the first time what to do next.
func greet(w io.Writer, addr net.Addr, file, key, link string) {
	host, port, _ := net.SplitHostPort(addr.String())
	url := localURL(host, port)
	fmt.Fprintf(w, "Mneme runs on %s\n", url)
	if link != "" {
		fmt.Fprintf(w, "Open the console. This link signs you in once, within a minute; `%s console` prints another:"+
			"\n\n  %s\n\n", invocation(os.Args[0]), consoleLink(url, link))
	}
	fmt.Fprintf(w, `The key of tenant default (tenant_admin), kept in %s:

  %s

Store a first turn, then ask what the model should see:

  curl -s %s/api/v1/projects/%s/turns -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' \
    -d '{"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi! How can I help?"}]}'

  curl -s %s/api/v1/projects/%s/context -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' -d '{}'

`, file, key, url, ident.DefaultProject, key, url, ident.DefaultProject, key)
}
