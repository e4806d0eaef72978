package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// client asks a running server.
type client struct{ url, key string }

// patience is how often a request is sent that the server has no room for now.
const patience = 20

func (c client) put(ctx context.Context, path string, body any) error {
	return c.send(ctx, http.MethodPut, path, "application/json", encoded(body), nil)
}

func (c client) post(ctx context.Context, path string, body, into any) error {
	return c.send(ctx, http.MethodPost, path, "application/json", encoded(body), into)
}

// get reads a thing and reports whether it exists.
func (c client) get(ctx context.Context, path string, into any) (bool, error) {
	err := c.send(ctx, http.MethodGet, path, "", nil, into)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.status == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// refusal is an answer other than a success.
type refusal struct {
	method, path, detail string
	status               int
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s %s: the server answers %d: %s", r.method, r.path, r.status, r.detail)
}

// send sends one request below the API's path. It waits if the server asks for that.
func (c client) send(ctx context.Context, method, path, media string, body []byte, into any) error {
	for try := 1; ; try++ {
		wait, err := c.once(ctx, method, path, media, body, into)
		if wait == 0 || try == patience {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// once sends a request once. wait is how long the server asks to wait before the next attempt; 0 if none is needed.
func (c client) once(ctx context.Context, method, path, media string, body []byte, into any) (wait time.Duration,
	err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+"/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("asking the server: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, fmt.Errorf("reading the server's answer: %w", err)
	}
	if res.StatusCode < 300 {
		if into == nil {
			return 0, nil
		}
		return 0, json.Unmarshal(answer, into)
	}
	var problem struct{ Detail string }
	if json.Unmarshal(answer, &problem) != nil {
		problem.Detail = strings.TrimSpace(string(answer))
	}
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		wait = time.Duration(max(seconds, 1)) * time.Second
	}
	return wait, &refusal{method, path, problem.Detail, res.StatusCode}
}
