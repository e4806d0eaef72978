package relay

import (
	"net/http"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

// sent are the headers of a client that go on to its provider. Everything else stays here: cookies, hop-by-hop and
// forwarding headers, and Mneme's own.
var sent = []string{"Content-Type", "Accept", "User-Agent", "Openai-Organization", "Openai-Project", "Openai-Beta",
	"Idempotency-Key", "X-Client-Request-Id", "Session-Id", "Session_id", "Thread-Id", "Thread_id", "Traceparent"}

// sentPrefixes are the beginnings of further headers that go on. Anthropic's gateway protocol asks for all of its own.
var sentPrefixes = []string{"Anthropic-", "X-Stainless-"}

// The headers that a provider's key may stand in.
var keyHeaders = []string{"Authorization", "X-Api-Key", "Api-Key"}

// anthropicHost alone gets Claude Code's own headers.
const anthropicHost = "api.anthropic.com"

// requestHeaders are those that go to an upstream: what the client's request had, as far as it may go on, and the
// upstream's key or the client's own. own tells of a value whether it holds one of Mneme's keys, which never leaves.
func requestHeaders(u *provider.Upstream, client http.Header, own func(value string) bool) http.Header {
	out := http.Header{}
	for name, values := range client {
		name = http.CanonicalHeaderKey(name)
		goes := slices.Contains(sent, name) || slices.ContainsFunc(u.Headers, func(h string) bool {
			return http.CanonicalHeaderKey(h) == name
		}) || slices.ContainsFunc(sentPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) ||
			strings.HasPrefix(name, "X-Claude-Code-") && u.Base.Host == anthropicHost
		if goes && !slices.Contains(keyHeaders, name) {
			out[name] = values
		}
	}
	switch {
	case u.Use != provider.Sealed:
		for _, name := range keyHeaders {
			for _, value := range client.Values(name) {
				if !own(value) {
					out.Add(name, value)
				}
			}
		}
	case u.Protocol == provider.Anthropic:
		out.Set("X-Api-Key", u.Key)
	default:
		out.Set("Authorization", "Bearer "+u.Key)
	}
	// An answer is folded while it passes, so it must not be compressed.
	out.Set("Accept-Encoding", "identity")
	for name, values := range out {
		if slices.ContainsFunc(values, own) {
			out.Del(name)
		}
	}
	return out
}

// returned are the headers of a provider that go back to the client.
var returned = []string{"Content-Type", "Content-Encoding", "Request-Id", "X-Request-Id", "Retry-After", "Retry-After-Ms", "X-Should-Retry"}

// returnedPrefixes are the beginnings of further headers that go back.
var returnedPrefixes = []string{"X-Ratelimit-", "Anthropic-Ratelimit-", "Openai-"}

// Returned are those of a provider's answer that go back to the client.
func Returned(provider http.Header) http.Header {
	out := http.Header{}
	for name, values := range provider {
		if slices.Contains(returned, name) ||
			slices.ContainsFunc(returnedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			out[name] = values
		}
	}
	return out
}
