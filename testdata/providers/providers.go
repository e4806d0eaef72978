// Package providers checks requests for what the servers of model providers refuse. It has one check for each API:
// OpenAI's Chat Completions and Responses, and Anthropic's Messages. It also has a local server that applies the
// checks, answers from a script in the providers' own formats, plain or streamed, and binds thinking to the exact
// prefix that it was made for.
//
// Each rule is one entry of a table. The comment above it names its source:
//
//	D/x            the page x of platform.claude.com/docs
//	PT, PC, FIX    there: preserved-thinking, its prefix-checks, fix-bound-to-a-different-conversation
//	F52, ODC       there: what is new in Fable 5.2, and on-demand compaction
//	O/x, OCACHE    the page x of developers.openai.com/api/docs/guides, prompt-caching
//	OVIS           there: images-vision
//	oa, an         the types of the Python SDKs openai 3.54.0 and anthropic 2.12.0
//	owner/name#N   an issue or pull request on GitHub that quotes a real refusal
//	notes          public texts that quote one or measured it
//	second-hand    gateways and blogs
//	unquoted       the rule is documented, but the text of the refusal is the kit's own, or from memory
//
// The sources were collected in November 2026. Models of the families 5.2, 5.5 and gpt-6 are as those pages describe
// them.
package providers

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// API is one of the three formats.
type API string

// The formats, by their names in Mneme's API.
const (
	Chat      API = "openai.chat"
	Responses API = "openai.responses"
	Messages  API = "anthropic.messages"
)

// Refusal is an error that a provider sends instead of a reply.
type Refusal struct {
	Rule    string // the broken rule of this package; providers do not send it
	Status  int
	Type    string
	Message string
	Param   string // OpenAI only
	Code    string // OpenAI: error.code; Anthropic: error.details.error_code
}

// Error returns the rule's name and the provider's text.
func (r *Refusal) Error() string { return fmt.Sprintf("%s: %d %s", r.Rule, r.Status, r.Message) }

// body returns the error in the provider's format.
func (r *Refusal) body(api API, requestID string) []byte {
	if api == Messages {
		fault := map[string]any{"type": r.Type, "message": r.Message}
		if r.Code != "" {
			fault["details"] = map[string]any{"error_code": r.Code}
		}
		return encode(map[string]any{"type": "error", "error": fault, "request_id": requestID})
	}
	return encode(map[string]any{"error": map[string]any{
		"message": r.Message, "type": r.Type, "param": orNull(r.Param), "code": orNull(r.Code)}})
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// refuse returns a 400 for both providers.
func refuse(format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: fmt.Sprintf(format, args...)}
}

// at sets the parameter that OpenAI names.
func (r *Refusal) at(format string, args ...any) *Refusal {
	r.Param = fmt.Sprintf(format, args...)
	return r
}

// coded sets the code.
func (r *Refusal) coded(code string) *Refusal {
	r.Code = code
	return r
}

// rule is one reason for which a provider refuses requests. Its check sees only requests that pass all rules above it
// in the table.
type rule[T any] struct {
	name  string
	check func(T) *Refusal
}

// apply returns the first refusal by a table of rules, or nil.
func apply[T any](rules []rule[T], request T) *Refusal {
	for _, r := range rules {
		if refusal := r.check(request); refusal != nil {
			refusal.Rule = r.name
			return refusal
		}
	}
	return nil
}

// Option changes how a request is checked.
type Option func(*options)

type options struct {
	model *Model
	betas map[string]bool
	count func(text string) int
}

// As checks for a model, regardless of the model that the request names.
func As(m Model) Option { return func(o *options) { o.model = &m } }

// Beta adds values of the header anthropic-beta.
func Beta(values ...string) Option {
	return func(o *options) {
		for _, v := range values {
			o.betas[v] = true
		}
	}
}

// Counting counts tokens with a tokenizer. By default a token is four bytes.
func Counting(count func(text string) int) Option { return func(o *options) { o.count = count } }

func collect(opts []Option) *options {
	o := &options{betas: map[string]bool{}, count: func(text string) int { return (len(text) + 3) / 4 }}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// CheckChat returns Chat Completions' refusal of a request, or nil.
func CheckChat(body []byte, opts ...Option) *Refusal {
	_, refusal := readChat(body, collect(opts))
	return refusal
}

// CheckResponses returns Responses' refusal of a request, or nil.
func CheckResponses(body []byte, opts ...Option) *Refusal {
	_, refusal := readResponses(body, collect(opts))
	return refusal
}

// CheckMessages returns Messages' refusal of a request, or nil.
func CheckMessages(body []byte, opts ...Option) *Refusal {
	_, refusal := readMessages(body, collect(opts))
	return refusal
}

// Transformation is a block that a provider silently left out of a request.
type Transformation struct {
	ID     string `json:"id,omitempty"`     // Responses
	Type   string `json:"type"`             // Messages: thinking_dropped; Responses: reasoning
	Path   string `json:"path,omitempty"`   // Messages: messages.i.content.j
	Action string `json:"action,omitempty"` // Responses: removed
	Reason string `json:"reason"`
}

// Transformations returns what the provider would leave out of a request that it accepts.
func Transformations(api API, body []byte, opts ...Option) ([]Transformation, *Refusal) {
	switch api {
	case Messages:
		m, refusal := readMessages(body, collect(opts))
		if refusal != nil {
			return nil, refusal
		}
		return m.dropped, nil
	case Responses:
		r, refusal := readResponses(body, collect(opts))
		if refusal != nil {
			return nil, refusal
		}
		return r.removed, nil
	}
	return nil, CheckChat(body, opts...)
}

func encode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // only strings and values read from JSON are encoded here
	}
	return out
}
