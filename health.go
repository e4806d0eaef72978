package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// healthPatience is how long `mneme health` waits for an answer. A server that can store answers at once.
const healthPatience = 5 * time.Second

// checkHealth asks a running server whether it can serve and store, for a container's HEALTHCHECK and for scripts. If
// the server cannot be reached, or /readyz reports a failure, it returns an error, and the program exits with code 1.
func checkHealth(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) error {
	url, listen := "", defaultListen
	_, err := readOptions(flag.NewFlagSet("health", flag.ContinueOnError), []option{
		{"url", "MNEME_URL", "", &url, "`URL` of the running server (default: made from MNEME_LISTEN)"},
		{"", "MNEME_LISTEN", "", &listen, "the address that the server listens on"},
	}, args, env, stderr)
	if err != nil {
		return err
	}
	if url == "" {
		host, port, err := net.SplitHostPort(listen)
		if err != nil {
			return fmt.Errorf("reading MNEME_LISTEN: %w", err)
		}
		url = localURL(host, port)
	}
	ctx, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	url = strings.TrimSuffix(url, "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking the server: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return refusedByServer(res)
	}
	_, err = fmt.Fprintf(stdout, "%s is ready\n", url)
	return err
}

// localURL returns the URL by which programs of this machine reach a server that listens on host and port.
func localURL(host, port string) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
