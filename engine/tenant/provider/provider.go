// Package provider defines upstreams: the providers' APIs that a project's requests go to. The operator allows hosts,
// and the tenant's administrator chooses among them. The client has no influence.
package provider

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Protocol is the family of an API.
type Protocol string

// The protocols. OpenAI's are Chat Completions and Responses; Anthropic's is Messages.
const (
	OpenAI    Protocol = "openai"
	Anthropic Protocol = "anthropic"
)

// Upstream is a provider's API as a project uses it.
type Upstream struct {
	Name     string
	Protocol Protocol
	Base     *url.URL // with the API's version, such as https://api.openai.com/v1
	Use      KeyUse
	Key      string   // of the provider, if Use is Sealed; "" means unknown
	Models   []string // patterns of path.Match; none means all models
	Headers  []string // further headers of clients that are forwarded
	// AllowPrivate means that the administrator expects an address in a private network.
	AllowPrivate  bool
	ContextTokens int               // of its models' context window; 0 means not known
	OutputTokens  int               // of their largest output; 0 means not known
	Profile       Profile           // complete
	Origins       map[string]Origin // of the profile's values
}

// Serves reports whether the upstream serves a model.
func (u *Upstream) Serves(model string) bool {
	return len(u.Models) == 0 || slices.ContainsFunc(u.Models, func(pattern string) bool {
		ok, err := path.Match(pattern, model)
		return ok && err == nil
	})
}

// ParseBase parses an upstream's base URL. It must be http or https, without a user, a query or a fragment.
func ParseBase(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("must be an http or https URL, such as https://api.openai.com/v1")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.RawPath != "" || u.ForceQuery:
		return nil, errors.New("must have no user, no query and no fragment")
	}
	return u, nil
}

// errPath is the error for a refused path. It does not repeat the path, which may be an attempt to inject text.
var errPath = errors.New(`the path must be plain segments, without "..", empty segments, or characters that are escaped`)

// At returns the URL of a path below the base, such as /chat/completions, with the client's query. It refuses paths
// that could be interpreted as another place.
func (u *Upstream) At(rest, query string) (*url.URL, error) {
	if !strings.HasPrefix(rest, "/") {
		return nil, errPath
	}
	for segment := range strings.SplitSeq(rest[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return nil, errPath
		}
	}
	for _, c := range rest {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune("/-._~:", c):
		default: // escapes, too, however they decode
			return nil, errPath
		}
	}
	at := *u.Base
	at.Path += rest
	at.RawQuery = query
	return &at, nil
}

// Allowed lists where upstreams may be: the hosts that the operator names, with a port if it is not the scheme's
// default. Only hosts in Private may have addresses in private networks.
type Allowed struct {
	Hosts   []string // such as api.openai.com or *.example.com
	Private []string
}

// Host reports whether a base URL's host is allowed, and whether it may be a private address.
func (a *Allowed) Host(base *url.URL) (allowed, private bool) {
	private = slices.ContainsFunc(a.Private, func(pattern string) bool { return hostMatches(pattern, base) })
	return private || slices.ContainsFunc(a.Hosts, func(pattern string) bool { return hostMatches(pattern, base) }), private
}

func hostMatches(pattern string, base *url.URL) bool {
	host := strings.ToLower(base.Host)
	if rest, ok := strings.CutPrefix(pattern, "*."); ok {
		return strings.HasSuffix(host, "."+strings.ToLower(rest))
	}
	return strings.ToLower(pattern) == host
}
