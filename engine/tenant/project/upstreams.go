package project

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

// ProxySettings configure model calls through the proxy: where they go, and what the proxy does with them.
type ProxySettings struct {
	Upstreams           []provider.Spec `json:"upstreams"` // if empty, the operator's
	ProxyMode           string          `json:"proxy_mode"`
	ProxyOnError        string          `json:"proxy_on_error"`      // open or closed
	ProxyOnDisconnect   string          `json:"proxy_on_disconnect"` // cancel or finish
	ProxyRequireSession bool            `json:"proxy_require_session"`
	ProxyHistory        string          `json:"proxy_history"` // auto, resend or delta
	ProxyTools          []string        `json:"proxy_tools"`   // those of ProxyTools that model calls offer and Mneme executes
	// ProxySessionFields are members of a call's body that name its session, such as prompt_cache_key.
	ProxySessionFields []string `json:"proxy_session_fields"`
}

// The modes of the proxy.
const (
	ModeAuto    = "auto"
	ModeOff     = "off"
	ModeObserve = "observe"
	// ModeRecall adds memories to the client's messages. ModeAssemble replaces its history by the window.
	ModeRecall   = "recall"
	ModeAssemble = "assemble"
)

// Modes are the values of proxy_mode.
var Modes = []string{ModeAuto, ModeOff, ModeObserve, ModeRecall, ModeAssemble}

// The forms in which clients send their history: all of it, only new messages, or detected for each request.
const (
	HistoryAuto   = "auto"
	HistoryResend = "resend"
	HistoryDelta  = "delta"
)

// Histories are the values of proxy_history.
var Histories = []string{HistoryAuto, HistoryResend, HistoryDelta}

// ProxyTools are the tools that proxy_tools may name.
var ProxyTools = []string{"memory_recall", "memory_store", "memory_forget"}

func (s *ProxySettings) check() error {
	for _, choice := range []struct {
		name, value string
		of          []string
	}{
		{"proxy_mode", s.ProxyMode, Modes}, {"proxy_on_error", s.ProxyOnError, []string{"open", "closed"}},
		{"proxy_on_disconnect", s.ProxyOnDisconnect, []string{"cancel", "finish"}},
		{"proxy_history", s.ProxyHistory, Histories},
	} {
		if !slices.Contains(choice.of, choice.value) {
			return fault.InvalidField(choice.name, "invalid_value", "must be one of %q", choice.of)
		}
	}
	for i, name := range s.ProxyTools {
		if !slices.Contains(ProxyTools, name) || slices.Contains(s.ProxyTools[:i], name) {
			return fault.InvalidField(fmt.Sprintf("proxy_tools[%d]", i), "invalid_value", "must be one of %q, each once",
				ProxyTools)
		}
	}
	for i, name := range s.ProxySessionFields {
		member, nested := strings.CutPrefix(name, "metadata.")
		known := slices.Contains(align.SharedFields, name) || nested && member != "" && len(name) <= 128
		if !known || slices.Contains(s.ProxySessionFields[:i], name) {
			return fault.InvalidField(fmt.Sprintf("proxy_session_fields[%d]", i), "invalid_value",
				"must be one of %q or a member of metadata such as \"metadata.chat\", each once", align.SharedFields)
		}
	}
	if len(s.Upstreams) > provider.MaxSpecs {
		return fault.InvalidField("upstreams", "too_long", "must be at most %d", provider.MaxSpecs)
	}
	names := map[string]bool{}
	for i := range s.Upstreams {
		spec := &s.Upstreams[i]
		if wrong := spec.Check(); wrong != nil {
			return fault.InvalidField(fmt.Sprintf("upstreams[%d].%s", i, wrong.Field), wrong.Code, "%s", wrong.Detail)
		}
		if spec.Secret != "" {
			return fault.InvalidField(fmt.Sprintf("upstreams[%d].secret", i), "invalid_value",
				"can be set by a project's settings alone")
		}
		if names[spec.Name] {
			return fault.InvalidField(fmt.Sprintf("upstreams[%d].name", i), "invalid_value",
				"another upstream has this name")
		}
		names[spec.Name] = true
	}
	return nil
}

// secret is a provider's key as it is stored: encrypted, and bound to one use.
type secret struct {
	Use string `json:"use"`
	Box []byte `json:"box"`
}

// useOf returns the use that a project's key is bound to. A key is never sent anywhere except where it was set for.
func (p *Record) useOf(s *provider.Spec) string {
	return fmt.Sprintf("%x %s %s", p.Incarnation[:], s.Protocol, s.BaseURL)
}

// takeSecrets removes the secrets from a patch and returns them by the names of their upstreams, so that settings never
// contain one. It returns wrong_type or invalid_value.
func takeSecrets(changes map[string]json.RawMessage) (map[string]string, error) {
	raw, ok := changes["upstreams"]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	var specs []provider.Spec
	if err := json.Unmarshal(raw, &specs); err != nil {
		return nil, fault.InvalidField("upstreams", "wrong_type", "must be a list of upstreams")
	}
	secrets := map[string]string{}
	for i := range specs {
		s := &specs[i]
		if wrong := s.Check(); wrong != nil { // before the secret is removed
			return nil, fault.InvalidField(fmt.Sprintf("upstreams[%d].%s", i, wrong.Field), wrong.Code, "%s",
				wrong.Detail)
		}
		if s.Secret != "" {
			secrets[s.Name], s.Secret = s.Secret, ""
		}
	}
	if specs == nil {
		specs = []provider.Spec{}
	}
	cleaned, err := json.Marshal(specs)
	changes["upstreams"] = cleaned
	return secrets, err
}

// seal encrypts the secrets of a project's upstreams: new ones, and existing ones of upstreams that still have the same
// name and destination. It returns invalid_value or required.
func (svc *Service) seal(p *Record, specs []provider.Spec, secrets map[string]string) error {
	if err := svc.allowed(specs); err != nil {
		return err
	}
	before := p.Secrets
	p.Secrets = nil
	for i := range specs {
		s := &specs[i]
		if s.Key != provider.Sealed {
			continue
		}
		field := fmt.Sprintf("upstreams[%d].secret", i)
		use := p.useOf(s)
		kept := before[s.Name]
		if text := secrets[s.Name]; text != "" {
			if svc.Operator.Sealer == nil {
				return fault.InvalidField(field, "invalid_value",
					"the operator has given no key to seal secrets with (--proxy-seal-key)")
			}
			kept = secret{Use: use, Box: svc.Operator.Sealer.Seal(text, use)}
		}
		if kept.Use != use {
			return fault.InvalidField(field, "required", "must be given for a sealed upstream that is new or leads to "+
				"another place than before")
		}
		if p.Secrets == nil {
			p.Secrets = map[string]secret{}
		}
		p.Secrets[s.Name] = kept
	}
	return nil
}

// allowed returns invalid_value for upstreams that the operator does not allow.
func (svc *Service) allowed(specs []provider.Spec) error {
	for i := range specs {
		u := specs[i].Upstream("")
		if ok, _ := svc.Operator.Allowed.Host(u.Base); !ok {
			return fault.InvalidField(fmt.Sprintf("upstreams[%d].base_url", i), "invalid_value",
				"its host is none that the operator allows (--proxy-upstreams)")
		}
	}
	return nil
}

// open returns a project's upstreams with their keys. A sealed upstream has no key if its secret cannot be decrypted.
func (svc *Service) open(p *Record, specs []provider.Spec) []*provider.Upstream {
	if len(specs) == 0 {
		return svc.Operator.Defaults
	}
	out := make([]*provider.Upstream, len(specs))
	for i := range specs {
		s := &specs[i]
		key := ""
		if kept, ok := p.Secrets[s.Name]; ok && s.Key == provider.Sealed {
			key, _ = svc.Operator.Sealer.Open(kept.Box, p.useOf(s)) // requests to it fail and say that there is no key
		}
		out[i] = s.Upstream(key)
	}
	return out
}

// Upstreams returns the upstreams that the project's model calls can go to, in order.
func (s *Setup) Upstreams() []*provider.Upstream { return s.upstreams }
