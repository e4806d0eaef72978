// Package provider says which provider's API a project's requests go to. That is decided by the operator, who says which
// hosts may be upstreams, and by the tenant's administrator, and never by the client.
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

// The protocols. OpenAI's are Chat Completions and Responses, Anthropic's is Messages.
const (
	OpenAI    Protocol = "openai"
	Anthropic Protocol = "anthropic"
)

// Upstream is a provider's API as a project uses it.
type Upstream struct {
	Name     string
	Protocol Protocol
	Base     *url.URL // of the API's version, such as https://api.openai.com/v1
	Use      KeyUse
	Key      string   // of the provider where Use is Sealed; "": it is not known
	Models   []string // patterns as of path.Match; none: all models
	Headers  []string // further headers of clients that go on
	// AllowPrivate says that its administrator expects an address of a private network.
	AllowPrivate  bool
	ContextTokens int // of its models' context window; 0: not known
	OutputTokens  int // of their largest output; 0: not known
}

// Serves tells whether a model is one of the upstream's.
func (u *Upstream) Serves(model string) bool {
	return len(u.Models) == 0 || slices.ContainsFunc(u.Models, func(pattern string) bool {
		ok, err := path.Match(pattern, model)
		return ok && err == nil
	})
}

// ParseBase reads an upstream's base URL. It must be http or https, without a user, a query or a fragment.
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

// errPath refuses the rest of a path. No detail repeats it: it may hold what somebody hopes to see again.
var errPath = errors.New(`the path must be plain segments, without "..", empty segments, or characters that are escaped`)

// At is the URL of a path below the base, such as /chat/completions, with the client's query. It refuses what could
// mean another place than it says.
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
		default: // an escape too, however it decodes
			return nil, errPath
		}
	}
	at := *u.Base
	at.Path += rest
	at.RawQuery = query
	return &at, nil
}

// Allowed says where upstreams may be: the hosts that the operator names, with a port where it is not the scheme's own.
// Of these, only hosts in Private may have addresses of private networks.
type Allowed struct {
	Hosts   []string // such as api.openai.com or *.example.com
	Private []string
}

// Host tells whether a base URL's host is allowed, and whether it may be a private address.
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
