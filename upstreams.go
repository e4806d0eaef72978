package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/openai"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

// publicHosts lists the providers that the proxy may call by default.
const publicHosts = "api.openai.com,api.anthropic.com"

// noHosts disables the proxy.
const noHosts = "none"

// upstreams is the configuration of the proxy's providers, as texts.
type upstreams struct {
	Hosts             string
	SealKey           string
	OpenAI, Anthropic providerConfig
}

// operator parses the configuration. Errors name the option and never contain a key.
func (u upstreams) operator() (out provider.Operator, err error) {
	switch u.Hosts {
	case noHosts:
		return out, nil
	case "":
		out.Allowed.Hosts = strings.Split(publicHosts, ",")
	default:
		for host := range strings.SplitSeq(u.Hosts, ",") {
			host = strings.TrimSpace(host)
			base, err := provider.ParseBase("https://" + strings.TrimPrefix(host, "*."))
			switch {
			case err != nil || base.Path != "" || strings.Contains(base.Host, "*"):
				return out, fmt.Errorf("proxy_upstreams: %q is no host such as api.openai.com, 10.0.0.1:8080 or *.example.com",
					host)
			case strings.HasPrefix(host, "*."):
				out.Allowed.Hosts = append(out.Allowed.Hosts, host)
			default: // if the operator names a single host, it is clear where the key goes
				out.Allowed.Private = append(out.Allowed.Private, host)
			}
		}
	}
	for _, of := range []struct {
		protocol           provider.Protocol
		given              providerConfig
		base, urlName, key string
	}{
		{provider.OpenAI, u.OpenAI, "https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"},
		{provider.Anthropic, u.Anthropic, "https://api.anthropic.com/v1", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"},
	} {
		spec := provider.Spec{Name: string(of.protocol), Protocol: of.protocol, BaseURL: of.base}
		if of.given.URL != "" {
			spec.BaseURL, spec.AllowPrivate = of.given.URL, true
		}
		if of.given.Key != "" {
			spec.Key = provider.Sealed
		}
		if err := openai.CheckKey(of.given.Key); err != nil {
			return out, fmt.Errorf("%s: %w", of.key, err)
		}
		if wrong := spec.Check(); wrong != nil {
			return out, fmt.Errorf("%s: %s", of.urlName, wrong.Detail)
		}
		given := spec.Upstream(of.given.Key)
		// Anthropic's own clients take a base URL without the version, OpenAI's take one with it.
		if of.protocol == provider.Anthropic && given.Base.Path == "" {
			given.Base.Path = "/v1"
		}
		if of.given.URL != "" {
			out.Allowed.Private = append(out.Allowed.Private, given.Base.Host)
		}
		out.Defaults = append(out.Defaults, given)
	}
	if u.SealKey != "" {
		if out.Sealer, err = provider.NewSealer(u.SealKey); err != nil {
			return out, errors.New("proxy_seal_key: " + err.Error())
		}
	}
	return out, nil
}
