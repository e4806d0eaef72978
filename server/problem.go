package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/server/strictjson"
)

// problem is an error response as defined in RFC 9457. Its type links to the code's line on the page /errors.
// Programs should use code, which is stable.
type problem struct {
	Type      string             `json:"type"`
	Title     string             `json:"title"`
	Status    int                `json:"status"`
	Detail    string             `json:"detail"`
	Code      string             `json:"code"`
	RequestID string             `json:"request_id"`
	Errors    []fault.FieldError `json:"errors,omitempty"`
	Needed    *int               `json:"needed,omitempty"`
	Allowed   *int               `json:"allowed,omitempty"`
	Unit      string             `json:"unit,omitempty"`
	// For a refused policy module: the check that it failed and, if that is a limit, the number found.
	Check string `json:"check,omitempty"`
	Found *int64 `json:"found,omitempty"`
	Limit *int64 `json:"limit,omitempty"`
	// For a version_mismatch: the memory as it is now; version 0 if there is none.
	Version *int   `json:"version,omitempty"`
	ETag    string `json:"etag,omitempty"`
}

func (p *problem) Error() string { return p.Code + ": " + p.Detail }

// refuse returns a problem that the server itself detects, without an error of the engine. edgeCodes lists the codes.
func refuse(status int, code, format string, args ...any) *problem {
	return &problem{Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// statuses maps kinds of errors to statuses. A kind that is not in it is a 500.
var statuses = map[fault.Kind]int{
	fault.BadRequest:   http.StatusBadRequest,
	fault.Unauthorized: http.StatusUnauthorized,
	fault.Forbidden:    http.StatusForbidden,
	fault.NotFound:     http.StatusNotFound,
	fault.Conflict:     http.StatusConflict,
	fault.Gone:         http.StatusGone,
	fault.Precondition: http.StatusPreconditionFailed,
	fault.TooLarge:     http.StatusRequestEntityTooLarge,
	fault.Invalid:      http.StatusUnprocessableEntity,
	fault.Unavailable:  http.StatusServiceUnavailable,
	fault.NoSpace:      http.StatusInsufficientStorage,
}

// statusOf returns the status for a kind of error.
func statusOf(k fault.Kind) int { return cmp.Or(statuses[k], http.StatusInternalServerError) }

// problemOf converts any error to a problem. If err was not written for clients, the code is `internal` and its text
// only goes to the log.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*fault.Error](records.Worded(err)); ok && e.Kind != fault.Internal {
		p := &problem{Status: statusOf(e.Kind), Code: e.Code, Detail: e.Detail, Errors: e.Fields, Unit: e.Unit}
		if e.Unit != "" {
			p.Needed, p.Allowed = &e.Needed, &e.Allowed
		}
		if r := e.Refusal; r != nil {
			p.Check = r.Check
			if r.Limit != 0 {
				p.Found, p.Limit = &r.Found, &r.Limit
			}
		}
		if e.Current != nil {
			p.Version, p.ETag = &e.Current.Version, e.Current.ETag
		}
		return p
	}
	if e, ok := errors.AsType[*strictjson.SyntaxError](err); ok {
		return refuse(http.StatusBadRequest, "invalid_json", "the body is not JSON: %s", e)
	}
	if e, ok := errors.AsType[*strictjson.FaultsError](err); ok {
		p := refuse(http.StatusUnprocessableEntity, e.Faults[0].Code, "%s", e)
		for _, f := range e.Faults {
			p.Errors = append(p.Errors, fault.FieldError{Field: f.Path, Pointer: f.Pointer, Code: f.Code,
				Detail: f.Detail})
		}
		return p
	}
	if e, ok := errors.AsType[*fiber.Error](err); ok {
		return problemOfFiber(e)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return refuse(http.StatusServiceUnavailable, "deadline_exceeded", "the request took too long; try again")
	}
	if errors.Is(err, context.Canceled) {
		return refuse(http.StatusServiceUnavailable, "shutting_down", "the server is stopping; try again")
	}
	return refuse(http.StatusInternalServerError, "internal",
		"the server failed; its log says more under this request_id")
}

// problemOfFiber converts errors that Fiber detects before any handler runs.
func problemOfFiber(e *fiber.Error) *problem {
	switch e.Code {
	case http.StatusRequestTimeout:
		return refuse(e.Code, "request_timeout", "the request did not arrive in time")
	case http.StatusRequestHeaderFieldsTooLarge:
		return refuse(e.Code, "headers_too_large", "the request line and headers are too long together")
	default:
		return refuse(http.StatusBadRequest, "bad_request", "the request is not valid HTTP")
	}
}

// unroutable returns the problem for a request that has no route. It names the path that may have been meant, or the
// methods that the path has.
func (x *exchange) unroutable(err error) error {
	found, ok := errors.AsType[*fiber.Error](err)
	if !ok {
		return err
	}
	switch found.Code {
	case http.StatusNotFound:
		meant := x.s.nearest(strings.Clone(x.c.Path()))
		if meant != "" {
			meant = "; did you mean `" + meant + "`?"
		}
		return refuse(found.Code, "not_found", "no such path%s /openapi.json lists all paths", cmp.Or(meant, ";"))
	case http.StatusMethodNotAllowed:
		return refuse(found.Code, "method_not_allowed", "this path takes %s, not %s",
			x.c.Response().Header.Peek(fiber.HeaderAllow), x.c.Method())
	}
	return err
}

// render writes the problem as the response.
func (p *problem) render(c *fiber.Ctx, requestID string) {
	answer := *p
	answer.Type, answer.Title, answer.RequestID = "/errors#"+p.Code, http.StatusText(p.Status), requestID
	body, err := json.Marshal(answer)
	if err != nil {
		panic("encoding a problem: " + err.Error()) // cannot fail: it holds only strings and numbers
	}
	r := c.Response()
	r.ResetBody()
	r.SetStatusCode(p.Status)
	r.Header.SetContentType("application/problem+json")
	switch p.Status {
	case http.StatusUnauthorized:
		r.Header.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="mneme"`)
	case http.StatusServiceUnavailable:
		r.Header.Set(fiber.HeaderRetryAfter, "1")
	}
	r.SetBodyRaw(body)
}
