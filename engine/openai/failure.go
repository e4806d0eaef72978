package openai

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	openai "github.com/sashabaranov/go-openai"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
)

// maxRetryAfter is the longest time that a provider can ask to wait.
const maxRetryAfter = time.Hour

// failure describes why a call failed. All texts are Mneme's own, because an error of the library may contain the
// address or the provider's body. call is the context of the HTTP request, and caller that of whoever asked for it.
func (s *Summariser) failure(call, caller context.Context, err error, header http.Header) *summary.ProviderError {
	if status, code := answered(err); status != 0 {
		e := refusal(status, code)
		e.RetryAfter = retryAfter(header)
		return e
	}
	_, cut := errors.AsType[*cutError](err)
	noAnswer, unanswered := errors.AsType[*url.Error](err)
	var e summary.ProviderError
	switch {
	case errors.Is(err, openai.ErrChatCompletionInvalidModel):
		e.Code, e.Permanent, e.Detail = "provider_refused", true, "this model is not for chat"
	case errors.Is(err, errRedirect):
		e.Code, e.Permanent, e.Detail = "provider_refused", true,
			"the provider answered with a redirect, which is not followed: its URL must be the one that answers"
	case caller.Err() != nil:
		e.Code, e.Detail = "provider_timeout", "the call was given up before the answer was complete"
	case call.Err() != nil, isTimeout(err):
		e.Code, e.Detail = "provider_timeout", fmt.Sprintf("no complete answer within %v", s.timeout)
	case errors.Is(err, errTooLong):
		e.Code, e.Detail = "bad_reply", fmt.Sprintf("the answer is longer than %d bytes", maxBody)
	case cut:
		e.Code, e.Detail = "provider_unreachable", "the connection was cut before the answer was complete"
	case unanswered:
		e.Code, e.Detail = "provider_unreachable", unreachable(noAnswer)
	default:
		e.Code, e.Detail = "bad_reply", "the answer is not the JSON of a chat completion"
	}
	return &e
}

// answered returns the status of an error response, and the code in its body; 0 for any other error.
func answered(err error) (status int, code string) {
	if told, ok := errors.AsType[*openai.APIError](err); ok {
		if code, _ = told.Code.(string); code == "" {
			code = told.Type
		}
		return told.HTTPStatusCode, code
	}
	if bare, ok := errors.AsType[*openai.RequestError](err); ok {
		return bare.HTTPStatusCode, ""
	}
	return 0, ""
}

// refusal describes an error response. Of the provider's texts, it uses only known codes.
func refusal(status int, code string) *summary.ProviderError {
	e := &summary.ProviderError{Code: "provider_refused", Permanent: true}
	words := "the provider does not accept the request"
	switch {
	case status == http.StatusTooManyRequests:
		e.Code, e.Permanent, words = "provider_rate_limited", false, "the provider asks for fewer requests"
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		e.Code, e.Permanent, words = "provider_timeout", false, "the provider gave up waiting"
	case status == http.StatusConflict || status == http.StatusTooEarly || status >= 500:
		e.Code, e.Permanent, words = "provider_error", false, "the provider failed"
	case status == http.StatusUnauthorized:
		words = "the provider does not accept the key"
	case status == http.StatusForbidden:
		words = "the provider does not allow this key the request"
	case status == http.StatusNotFound:
		words = "the provider knows no such model, or there is no such path at its URL"
	}
	switch code {
	case "insufficient_quota":
		words = "the account's quota at the provider is used up"
	case "model_not_found":
		words = "the provider knows no such model"
	case "context_length_exceeded":
		words = "the input is too long for the model"
	}
	e.Detail = fmt.Sprintf("%s (status %d)", words, status)
	return e
}

// retryAfter returns how long the provider asks to wait; 0 if it does not say.
func retryAfter(h http.Header) time.Duration {
	wait := time.Duration(0)
	value := strings.TrimSpace(h.Get("Retry-After"))
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		wait = inRange(ms, time.Millisecond)
	} else if s, err := strconv.ParseFloat(value, 64); err == nil {
		wait = inRange(s, time.Second)
	} else if at, err := http.ParseTime(value); err == nil {
		now, err := http.ParseTime(h.Get("Date")) // the provider's own clock
		if err != nil {
			now = time.Now()
		}
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// inRange returns n units, limited before multiplying; NaN becomes 0.
func inRange(n float64, unit time.Duration) time.Duration {
	if !(n > 0) {
		return 0
	}
	return time.Duration(min(n, float64(maxRetryAfter/unit)) * float64(unit))
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// unreachable says why there was no response.
func unreachable(err error) string {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "the name of the provider's host is not known"
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "nobody listens at the provider's address"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the provider's certificate is not valid"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the provider does not speak TLS at this address"
	}
	return "the connection failed before an answer came"
}
