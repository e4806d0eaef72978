package provider

import (
	"net/url"
	"slices"
	"strings"
)

// Profile says what a provider accepts and sends if its protocol leaves that open. Empty members have the values known
// for the host, or otherwise the usual values.
type Profile struct {
	Reasoning     string   `json:"reasoning,omitempty"`
	StreamOptions string   `json:"stream_options,omitempty"`
	Done          string   `json:"done,omitempty"`
	Roles         string   `json:"roles,omitempty"`
	AssistantNull string   `json:"assistant_null,omitempty"`
	Encodings     []string `json:"encodings,omitempty"` // of answers, which Mneme decodes; identity means none
}

// The values of a profile. The first of each member is the usual one.
const (
	// ReasoningSent sends reasoning_content if the client sends it. ReasoningAll also sends that of stored messages
	// whose reasoning the client has dropped.
	ReasoningSent = "sent"
	ReasoningAll  = "all"
	// StreamOptionsAdd asks for the usage of streams. StreamOptionsSent leaves stream_options to the client.
	StreamOptionsAdd  = "add"
	StreamOptionsSent = "sent"
	// With DoneOptional, a stream that gives its finish reason and ends cleanly is complete. DoneRequired also requires
	// [DONE].
	DoneOptional = "optional"
	DoneRequired = "required"
	// RolesAny allows system messages among the others. With RolesSystemFirst, Mneme's own notes are user messages there.
	RolesAny         = "any"
	RolesSystemFirst = "system_first"
	// AssistantNullKept leaves content null in a message with only calls. AssistantNullEmpty makes it an empty text.
	AssistantNullKept  = "kept"
	AssistantNullEmpty = "empty"

	identity = "identity"
)

// Encodings are the content encodings of answers that can be decoded.
var Encodings = []string{"zstd", "br", "gzip"}

// member describes a text of a profile.
type member struct {
	name   string
	of     func(*Profile) *string
	values []string // the first is the usual one
}

var members = []member{
	{"reasoning", func(p *Profile) *string { return &p.Reasoning }, []string{ReasoningSent, ReasoningAll}},
	{"stream_options", func(p *Profile) *string { return &p.StreamOptions }, []string{StreamOptionsAdd, StreamOptionsSent}},
	{"done", func(p *Profile) *string { return &p.Done }, []string{DoneOptional, DoneRequired}},
	{"roles", func(p *Profile) *string { return &p.Roles }, []string{RolesAny, RolesSystemFirst}},
	{"assistant_null", func(p *Profile) *string { return &p.AssistantNull }, []string{AssistantNullKept, AssistantNullEmpty}},
}

// hosts are the profiles of known hosts that differ from the usual values. A name that begins with a dot stands for all
// hosts below it.
//
// Sources: DeepSeek and Moonshot refuse assistant messages with tool calls whose reasoning_content is missing
// (api-docs.deepseek.com, thinking mode; anomalyco/opencode#24722; continuedev/continue#11806). Z.AI keeps thinking
// over turns only if it is sent back whole (docs.z.ai, thinking mode). Mistral refuses stream_options
// (openai/openai-agents-python#442).
var hosts = map[string]Profile{
	"api.deepseek.com": {Reasoning: ReasoningAll},
	".moonshot.ai":     {Reasoning: ReasoningAll},
	".moonshot.cn":     {Reasoning: ReasoningAll},
	"api.kimi.com":     {Reasoning: ReasoningAll},
	"api.z.ai":         {Reasoning: ReasoningAll},
	".bigmodel.cn":     {Reasoning: ReasoningAll},
	".mistral.ai":      {StreamOptions: StreamOptionsSent},
}

// ofHost returns the profile of a base URL's host; the zero Profile if nothing is known of it.
func ofHost(base *url.URL) Profile {
	host := strings.ToLower(base.Hostname())
	if p, ok := hosts[host]; ok {
		return p
	}
	for _, rest, ok := strings.Cut(host, "."); ok; _, rest, ok = strings.Cut(rest, ".") {
		if p, known := hosts["."+rest]; known {
			return p
		}
	}
	return Profile{}
}

// check returns what is wrong with a profile; nil if it is valid.
func (p *Profile) check() *Wrong {
	for _, m := range members {
		if value := *m.of(p); value != "" && !slices.Contains(m.values, value) {
			return &Wrong{"profile." + m.name, "invalid_value", "must be " + strings.Join(m.values, " or ")}
		}
	}
	for i, name := range p.Encodings {
		if (name != identity || len(p.Encodings) > 1) && !slices.Contains(Encodings, name) || slices.Contains(p.Encodings[:i], name) {
			return &Wrong{"profile.encodings", "invalid_value", "must be some of zstd, br and gzip, each once, or identity alone"}
		}
	}
	return nil
}

// Where the value of a profile is from.
const (
	FromUpstream = "upstream" // the project's or the operator's settings
	FromHost     = "host"     // the values known for the host
	FromDefault  = "default"
)

// Origin is a value in an upstream's profile, and its source.
type Origin struct {
	Value string `json:"value"` // encodings are separated by commas
	From  string `json:"from"`
}

// fill completes the profile of an upstream at a base URL, and says where each member's value is from.
func (p Profile) fill(base *url.URL) (Profile, map[string]Origin) {
	known, from := ofHost(base), map[string]Origin{}
	for _, m := range members {
		value, o := m.of(&p), Origin{From: FromUpstream}
		if *value == "" {
			*value, o.From = *m.of(&known), FromHost
		}
		if *value == "" {
			*value, o.From = m.values[0], FromDefault
		}
		o.Value = *value
		from[m.name] = o
	}
	from["encodings"] = Origin{strings.Join(p.Encodings, ","), FromUpstream}
	if len(p.Encodings) == 0 {
		from["encodings"] = Origin{identity, FromDefault}
	}
	if slices.Equal(p.Encodings, []string{identity}) {
		p.Encodings = nil
	}
	return p, from
}
