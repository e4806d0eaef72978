// Package openai makes summaries with any server that speaks OpenAI's chat completions. summariser.go makes the one
// request of a call and reads its answer, prompt.go words it, transport.go bounds what the provider can do with it, and
// failure.go names what goes wrong.
//
// The hard idea is that the provider is not trusted: no word of it reaches a tenant or a log but the summary itself.
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

// DefaultModel makes summaries where the operator names none.
const DefaultModel = "gpt-4o-mini"

const (
	// defaultTimeout bounds one call.
	defaultTimeout = time.Minute
	// defaultMaxTokens bounds a reply where the request does not.
	defaultMaxTokens = 1000
	// thinkingTokens are added for models whose thinking counts as part of their reply.
	thinkingTokens = 4096
	// minSecret is the length in bytes from which a key is taken for a secret.
	minSecret = 12
	// bytesPerToken is more than any tokenizer needs: a text that is longer was not asked for.
	bytesPerToken = 16
)

// Options say where the provider is. A key and an address that are both empty mean that there is none.
type Options struct {
	BaseURL string        // with its version, as https://api.openai.com/v1; "": OpenAI's
	APIKey  string        // "": none is sent
	Model   string        // for requests that name none; "": DefaultModel
	Timeout time.Duration // of one call; 0: a minute
}

// CheckURL tells what is wrong with a provider's base URL, without repeating it; an empty one is fine.
func CheckURL(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return errors.New("the provider's URL is not readable as one: write http(s)://HOST/PATH")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("the provider's URL must begin with http:// or https://")
	case u.Hostname() == "":
		return errors.New("the provider's URL names no host")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("the provider's URL must end with its path: no query, no fragment")
	}
	return nil
}

// CheckKey tells what is wrong with a provider's key, without repeating it; an empty one is fine.
func CheckKey(key string) error {
	if i := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return fmt.Errorf("the provider's key holds, at position %d, what no key can: "+
			"a space, a line's end, or no ASCII", i+1)
	}
	return nil
}

// Summariser implements summary.Summariser. Safe for concurrent use.
type Summariser struct {
	client  *openai.Client
	prompt  prompt
	key     string
	model   string
	timeout time.Duration
}

// New makes a summariser. Its errors, and those of Summarise, never hold the key or the address.
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

// Prompt names the version of the prompt, which is part of what identifies a summary.
func (s *Summariser) Prompt() string { return s.prompt.version }

// Summarise makes one HTTP request; the caller decides when to try again. Its error is a *summary.ProviderError.
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

// request is what is sent for r.
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

// read takes the summary out of a response, or says why there is none.
func (s *Summariser) read(response openai.ChatCompletionResponse, r summary.Request) (summary.Reply, error) {
	reply := summary.Reply{Model: s.modelName(response.Model, r.Model),
		TokensIn: used(response.Usage.PromptTokens), TokensOut: used(response.Usage.CompletionTokens)}
	bad := func(code, detail string) (summary.Reply, error) {
		return summary.Reply{}, &summary.ProviderError{Code: code, Detail: detail,
			TokensIn: reply.TokensIn, TokensOut: reply.TokensOut}
	}
	if len(response.Choices) == 0 {
		return bad("bad_reply", "the answer holds no message")
	}
	choice := response.Choices[0]
	reply.Text = strings.TrimSpace(choice.Message.Content)
	switch empty := !strings.ContainsFunc(reply.Text, says); {
	case choice.FinishReason == openai.FinishReasonLength:
		// What a cut summary left out would be lost, and yet count as covered.
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

// repeatsKey tells whether a text would show the key to tenants. A short key is no secret: servers that need none often
// want some word in its place.
func (s *Summariser) repeatsKey(text string) bool {
	return len(s.key) >= minSecret && strings.Contains(text, s.key)
}

// says tells whether a rune can be part of a word or a number.
func says(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// modelName is the model that says it answered, if that can be a model's name, else the one that was asked.
func (s *Summariser) modelName(answered, asked string) string {
	odd := func(r rune) bool { return !unicode.IsGraphic(r) || r == unicode.ReplacementChar }
	if answered == "" || len(answered) > 256 || strings.ContainsFunc(answered, odd) || s.repeatsKey(answered) {
		return asked
	}
	return answered
}

// used bounds a count of tokens that a provider gives.
func used(n int) int { return min(max(n, 0), 100_000_000) }
