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
	// Prompt returns the version of the prompt, which is stored with each summary.
	Prompt() string
}

// Request is the input of one call of the provider, which extends the previous summary by messages.
type Request struct {
	Model     string    // "" means the operator's
	Previous  string    // the running summary, or ""
	Messages  []Message // oldest first, shortened to fit the input
	MaxTokens int       // of the reply
}

// Message is a message in the form for the summariser.
type Message struct {
	Turn    uint32
	Speaker string // user, assistant, "tool NAME", "A to B"
	Text    string
}

// Reply is the provider's response. Tokens are the provider's counts.
type Reply struct {
	Text, Model         string
	TokensIn, TokensOut int
}

// ProviderError is the reason why a call of the provider produced no summary. It contains no keys, addresses or bodies.
type ProviderError struct {
	// Code is provider_timeout, provider_unreachable, provider_rate_limited, provider_error, provider_refused,
	// empty_reply or bad_reply.
	Code       string
	RetryAfter time.Duration // as the provider asked, or 0
	Permanent  bool          // repeating the request is useless
	Detail     string
	// Tokens that the failed call used.
	TokensIn, TokensOut int
}

func (e *ProviderError) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Detail) }
