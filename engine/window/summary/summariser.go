package summary

import (
	"context"
	"fmt"
	"time"
)

// Summariser makes summaries with a language model.
type Summariser interface {
	// Summarise makes one request to the provider. Its error is a *ProviderError.
	Summarise(ctx context.Context, r Request) (Reply, error)
	// Prompt names the version of the prompt: part of what identifies a summary.
	Prompt() string
}

// Request is what one call of the provider is to fold together.
type Request struct {
	Model     string    // "": the operator's
	Previous  string    // the running summary; "": none yet
	Messages  []Message // oldest first, cut to the input's bound
	MaxTokens int       // of the reply
}

// Message is one message as the summariser reads it.
type Message struct {
	Turn    uint32
	Speaker string // user, assistant, "tool NAME", "A to B"
	Text    string
}

// Reply is what the provider answered. Tokens are those that it counted.
type Reply struct {
	Text, Model         string
	TokensIn, TokensOut int
}

// ProviderError is why a call of the provider gave no summary. Nothing in it tells keys, addresses or bodies.
type ProviderError struct {
	// Code is provider_timeout, provider_unreachable, provider_rate_limited, provider_error, provider_refused,
	// empty_reply or bad_reply.
	Code       string
	RetryAfter time.Duration // as the provider asked; 0: it did not say
	Permanent  bool          // the same request will not succeed by itself
	Detail     string
	// Tokens that were used nevertheless.
	TokensIn, TokensOut int
}

func (e *ProviderError) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Detail) }
