package relay

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

// sent are the client's headers that are sent to its provider. All others are dropped: cookies, hop-by-hop and
// forwarding headers, and Mneme's own.
var sent = []string{"Content-Type", "Accept", "User-Agent", "Openai-Organization", "Openai-Project", "Openai-Beta",
	"Idempotency-Key", "X-Client-Request-Id", "Session-Id", "Session_id", "Thread-Id", "Thread_id", "Traceparent"}

// sentPrefixes are the prefixes of further headers that are sent. Anthropic's gateway protocol requires all of its own.
var sentPrefixes = []string{"Anthropic-", "X-Stainless-"}

// The headers that may contain a provider's key.
var keyHeaders = []string{"Authorization", "X-Api-Key", "Api-Key"}

// anthropicHost is the only host that gets Claude Code's own headers.
const anthropicHost = "api.anthropic.com"

// requestHeaders returns the headers to send to an upstream: those of the client's request that may be sent, and the
// upstream's key or the client's own. own reports whether a value contains one of Mneme's keys, which are never sent.
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
	// The answer is folded while it is relayed, so it comes in an encoding that Mneme decodes.
	out.Set("Accept-Encoding", cmp.Or(strings.Join(u.Profile.Encodings, ", "), "identity"))
	for name, values := range out {
		if slices.ContainsFunc(values, own) {
			out.Del(name)
		}
	}
	return out
}

// returned are the provider's headers that are returned to the client.
var returned = []string{"Content-Type", "Content-Encoding", "Request-Id", "X-Request-Id", "Retry-After", "Retry-After-Ms", "X-Should-Retry"}

// returnedPrefixes are the prefixes of further headers that are returned.
var returnedPrefixes = []string{"X-Ratelimit-", "Anthropic-Ratelimit-", "Openai-"}

// Returned returns the headers of a provider's answer that are returned to the client.
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
