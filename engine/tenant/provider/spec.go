package provider

import (
	"cmp"
	"net/http"
	"path"
	"slices"
	"strings"
)

// Spec is an upstream in a project's settings.
type Spec struct {
	Name     string   `json:"name"`
	Protocol Protocol `json:"protocol"`
	BaseURL  string   `json:"base_url"`         // with the API's version
	Key      KeyUse   `json:"key,omitempty"`    // "" means pass
	Secret   string   `json:"secret,omitempty"` // of a sealed upstream; write-only
	Models   []string `json:"models,omitempty"` // patterns of path.Match; none means all models
	Headers  []string `json:"headers,omitempty"`
	// AllowPrivate means that the host may be in a private network. The operator must also list it.
	AllowPrivate bool `json:"allow_private,omitempty"`
	// ContextTokens and OutputTokens are the models' context window and largest output; 0 means unknown.
	ContextTokens int     `json:"context_tokens,omitempty"`
	OutputTokens  int     `json:"output_tokens,omitempty"`
	Profile       Profile `json:"profile,omitzero"`
}

// KeyUse says whose key an upstream is called with.
type KeyUse string

// The uses of keys.
const (
	Pass   KeyUse = "pass"   // the client's own
	Sealed KeyUse = "sealed" // the project's, which the client never sees
)

// The limits of a spec.
const (
	MaxSpecs   = 32
	maxList    = 64
	maxPattern = 256
	maxSecret  = 4096
	maxTokens  = 1 << 30
)

// Wrong describes what is wrong with a field of a spec, with an error code of the API.
type Wrong struct{ Field, Code, Detail string }

// Check returns what is wrong with a spec; nil if it is valid.
func (s *Spec) Check() *Wrong {
	if _, err := ParseBase(s.BaseURL); err != nil {
		return &Wrong{"base_url", "invalid_value", err.Error()}
	}
	if wrong := s.Profile.check(); wrong != nil {
		return wrong
	}
	for i, pattern := range s.Models {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || len(pattern) > maxPattern || i >= maxList {
			return &Wrong{"models", "invalid_value",
				"must be at most 64 patterns of models, such as gpt-*, of at most 256 bytes each"}
		}
	}
	for i, name := range s.Headers {
		if !mayGo(name) || i >= maxList {
			return &Wrong{"headers", "invalid_value",
				"must be at most 64 names of headers, and none that holds a key or belongs to a connection"}
		}
	}
	switch {
	case s.Name == "" || len(s.Name) > 64 || strings.ContainsFunc(s.Name, func(r rune) bool { return r <= ' ' || r > '~' }):
		return &Wrong{"name", "invalid_value", "must be 1 to 64 printable characters of ASCII without blanks"}
	case s.Protocol != OpenAI && s.Protocol != Anthropic:
		return &Wrong{"protocol", "invalid_value", "must be openai or anthropic"}
	case s.Key != "" && s.Key != Pass && s.Key != Sealed:
		return &Wrong{"key", "invalid_value", "must be pass or sealed"}
	case s.Secret != "" && s.Key != Sealed:
		return &Wrong{"secret", "invalid_value", "only an upstream whose key is sealed has a secret"}
	case len(s.Secret) > maxSecret || strings.ContainsFunc(s.Secret, func(r rune) bool { return r <= ' ' || r > '~' }):
		return &Wrong{"secret", "invalid_value", "must be at most 4096 printable characters of ASCII without blanks"}
	case s.ContextTokens < 0 || s.ContextTokens > maxTokens:
		return &Wrong{"context_tokens", "out_of_range", "must be from 0 to 1073741824"}
	case s.OutputTokens < 0 || s.OutputTokens > maxTokens || s.ContextTokens > 0 && s.OutputTokens >= s.ContextTokens:
		return &Wrong{"output_tokens", "out_of_range", "must be from 0 to 1073741824, and less than context_tokens"}
	}
	return nil
}

// kept are headers that project settings cannot forward to an upstream.
var kept = []string{"Authorization", "X-Api-Key", "Api-Key", "Cookie", "Set-Cookie", "Host", "Connection", "Keep-Alive",
	"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Content-Length", "Content-Encoding", "Accept-Encoding", "Expect", "Forwarded", "X-Agent-Token"}

// mayGo reports whether a project may forward the header with this name.
func mayGo(name string) bool {
	canonical := http.CanonicalHeaderKey(name)
	return name != "" && len(name) <= maxPattern && !slices.Contains(kept, canonical) &&
		!strings.HasPrefix(canonical, "X-Mneme-") && !strings.HasPrefix(canonical, "X-Forwarded-") &&
		!strings.ContainsFunc(name, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
		})
}

// Upstream returns the upstream described by a spec that passed Check. key is the decrypted secret.
func (s *Spec) Upstream(key string) *Upstream {
	base, err := ParseBase(s.BaseURL)
	if err != nil {
		return nil
	}
	profile, origins := s.Profile.fill(base)
	return &Upstream{Name: s.Name, Protocol: s.Protocol, Base: base, Key: key, Use: cmp.Or(s.Key, Pass),
		Models: s.Models, Headers: s.Headers, AllowPrivate: s.AllowPrivate, ContextTokens: s.ContextTokens,
		OutputTokens: s.OutputTokens, Profile: profile, Origins: origins}
}

// Choose returns the upstream of a protocol that serves a model: the first whose patterns match. If the request names
// no model, it returns the first upstream that serves all models, or else the first one.
func Choose(all []*Upstream, p Protocol, model string) *Upstream {
	var first *Upstream
	for _, u := range all {
		switch {
		case u.Protocol != p:
		case model == "" && len(u.Models) > 0:
			first = cmp.Or(first, u)
		case u.Serves(model):
			return u
		}
	}
	if model == "" {
		return first
	}
	return nil
}
