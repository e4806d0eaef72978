package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"
)

// debugAddress completes the address of --debug-listen: a port without a host means loopback.
func debugAddress(text string) (string, error) {
	if !strings.Contains(text, ":") {
		text = ":" + text
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf("debug_listen: %w", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// serveDebug serves the profiles of net/http/pprof on a separate address until stop is called. They contain no user
// data. The command line is left out, because it may contain the operator's key.
func serveDebug(address string, log *slog.Logger) (stop func(), err error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err // the error contains the address
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	base, cancel := context.WithCancel(context.Background())
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(),
		slog.LevelWarn), BaseContext: func(net.Listener) context.Context { return base }}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(ln) // Serve returns when stop closes it.
	}()
	log.Info("profiles are served", "url", "http://"+ln.Addr().String()+"/debug/pprof/")
	return func() {
		cancel()
		_ = s.Close()
		<-ended
	}, nil
}
