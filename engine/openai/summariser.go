// Package openai makes summaries and vectors with any server that implements OpenAI's API. summariser.go makes the
// request for a summary and reads the response, prompt.go writes the prompt, transport.go limits what the provider can
// do, and failure.go describes errors.
//
// The provider is not trusted: apart from the summary itself, none of its text reaches a tenant or a log.
package openai

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	openai "github.com/sashabaranov/go-openai"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
)

// DefaultModel is used for summaries if the operator names no model.
const DefaultModel = "gpt-4o-mini"

const (
	// defaultTimeout is the default time limit of one call.
	defaultTimeout = time.Minute
	// defaultMaxTokens limits a reply if the request does not.
	defaultMaxTokens = 1000
	// thinkingTokens is added for models whose thinking counts as part of their reply.
	thinkingTokens = 4096
	// minSecret is the length from which a key is considered secret, in bytes.
	minSecret = 12
	// bytesPerToken is more than any tokenizer needs: a longer text was not asked for.
	bytesPerToken = 16
)

// Options configure the provider. If the key and the address are both empty, there is no provider.
type Options struct {
	BaseURL string        // with its version, such as https://api.openai.com/v1; "" means OpenAI's
	APIKey  string        // "" means that none is sent
	Model   string        // for requests that name none; "" means DefaultModel
	Timeout time.Duration // of one call; 0 means a minute
}

// CheckURL returns what is wrong with a provider's base URL, without repeating it. An empty URL is valid.
func CheckURL(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return errors.New("the provider's URL is not a valid URL: write http(s)://HOST/PATH")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("the provider's URL must begin with http:// or https://")
	case u.Hostname() == "":
		return errors.New("the provider's URL names no host")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("the provider's URL must end with its path: no query, no fragment")
	}
	return nil
}

// CheckKey returns what is wrong with a provider's key, without repeating it. An empty key is valid.
func CheckKey(key string) error {
	if i := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return fmt.Errorf("the provider's key has an invalid character at position %d: "+
			"a space, a line break, or one outside ASCII", i+1)
	}
	return nil
}

// Summariser implements summary.Summariser. It is safe for concurrent use.
type Summariser struct {
	client  *openai.Client
	prompt  prompt
	key     string
	model   string
	timeout time.Duration
}

// New returns a Summariser. Its errors, and those of Summarise, never contain the key or the address.
func New(o Options) (*Summariser, error) {
	if err := errors.Join(CheckURL(o.BaseURL), CheckKey(o.APIKey)); err != nil {
		return nil, err
	}
	p, err := readPrompt(promptFile)
	if err != nil {
		return nil, err
	}
	s := &Summariser{prompt: p, key: o.APIKey, model: o.Model, timeout: o.Timeout}
	if s.model == "" {
		s.model = DefaultModel
	}
	if s.timeout == 0 {
		s.timeout = defaultTimeout
	}
	c := openai.DefaultConfig(o.APIKey)
	if o.BaseURL != "" {
		c.BaseURL = o.BaseURL
	}
	c.HTTPClient = newTransport()
	s.client = openai.NewClientWithConfig(c)
	return s, nil
}

// Prompt returns the version of the prompt, which is part of a summary's identity.
func (s *Summariser) Prompt() string { return s.prompt.version }

// Summarise makes one HTTP request; the caller decides when to retry. Its error is a *summary.ProviderError.
func (s *Summariser) Summarise(ctx context.Context, r summary.Request) (summary.Reply, error) {
	if r.Model == "" {
		r.Model = s.model
	}
	if r.MaxTokens <= 0 {
		r.MaxTokens = defaultMaxTokens
	}
	request, err := s.request(r)
	if err != nil {
		return summary.Reply{}, &summary.ProviderError{Code: "provider_refused", Permanent: true,
			Detail: "the request could not be written"}
	}
	call, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	response, err := s.client.CreateChatCompletion(call, request)
	if err != nil {
		return summary.Reply{}, s.failure(call, ctx, err, response.Header())
	}
	return s.read(response, r)
}

// request returns the request to send for r.
func (s *Summariser) request(r summary.Request) (openai.ChatCompletionRequest, error) {
	system, data, err := s.prompt.write(r, r.MaxTokens)
	request := openai.ChatCompletionRequest{Model: r.Model, Messages: []openai.ChatCompletionMessage{
		{Role: openai.ChatMessageRoleSystem, Content: system}, {Role: openai.ChatMessageRoleUser, Content: data}}}
	//lint:ignore SA1019 servers other than OpenAI's know only this name, and some refuse a name that they do not know
	request.MaxTokens = r.MaxTokens
	if errors.Is(openai.NewReasoningValidator().Validate(request), openai.ErrReasoningModelMaxTokensDeprecated) {
		//lint:ignore SA1019 the models that think know only the other name
		request.MaxTokens = 0
		request.MaxCompletionTokens = r.MaxTokens + thinkingTokens
	}
	return request, err
}

// read returns the summary in a response, or an error that says why there is none.
func (s *Summariser) read(response openai.ChatCompletionResponse, r summary.Request) (summary.Reply, error) {
	reply := summary.Reply{Model: s.modelName(response.Model, r.Model),
		TokensIn: used(response.Usage.PromptTokens), TokensOut: used(response.Usage.CompletionTokens)}
	bad := func(code, detail string) (summary.Reply, error) {
		return summary.Reply{}, &summary.ProviderError{Code: code, Detail: detail,
			TokensIn: reply.TokensIn, TokensOut: reply.TokensOut}
	}
	if len(response.Choices) == 0 {
		return bad("bad_reply", "the response has no message")
	}
	choice := response.Choices[0]
	reply.Text = strings.TrimSpace(choice.Message.Content)
	switch empty := !strings.ContainsFunc(reply.Text, says); {
	case choice.FinishReason == openai.FinishReasonLength:
		// A truncated summary would lose messages that count as covered.
		return bad("bad_reply", "the summary was cut at the bound on its length")
	case choice.FinishReason == openai.FinishReasonContentFilter:
		return bad("bad_reply", "the provider's filter cut the answer")
	case empty && choice.Message.Refusal != "":
		return bad("bad_reply", "the model refused to answer")
	case empty:
		return bad("empty_reply", "the answer says nothing")
	case len(reply.Text) > r.MaxTokens*bytesPerToken:
		return bad("bad_reply", "the summary is far longer than was asked for")
	case s.repeatsKey(reply.Text):
		return bad("bad_reply", "the provider's answer repeats the key")
	}
	return reply, nil
}

// repeatsKey reports whether a text would reveal the key to tenants. A short key is not a secret: servers that need no
// key often require some word as one.
func (s *Summariser) repeatsKey(text string) bool {
	return len(s.key) >= minSecret && strings.Contains(text, s.key)
}

// says reports whether a rune can be part of a word or a number.
func says(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// modelName returns the model that the response names, if that can be a model's name, and otherwise the requested one.
func (s *Summariser) modelName(answered, asked string) string {
	odd := func(r rune) bool { return !unicode.IsGraphic(r) || r == unicode.ReplacementChar }
	if answered == "" || len(answered) > 256 || strings.ContainsFunc(answered, odd) || s.repeatsKey(answered) {
		return asked
	}
	return answered
}

// used limits a token count reported by a provider.
func used(n int) int { return min(max(n, 0), 100_000_000) }
