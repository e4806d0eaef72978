package providers

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Server is a local provider: POST /v1/chat/completions, /v1/responses, /v1/responses/input_tokens, /v1/messages and
// /v1/messages/count_tokens. It refuses what the providers refuse, and answers other requests from its script, in order
// of arrival. After the end of the script it answers "OK."
type Server struct {
	URL string

	opts   []Option
	mu     sync.Mutex
	ids    ids
	script []Reply
	asides map[string]Reply // answers to requests whose body contains the key; they take nothing from the script
	seen   []Request
	items  map[string]any // Responses: the items of its answers, by id
}

// Request is one request to a server.
type Request struct {
	API             API
	Path            string
	Header          http.Header
	Body            []byte
	Refusal         *Refusal
	Transformations []Transformation
}

// Start starts a server that stops when the test ends. The options apply to each request.
func Start(t testing.TB, opts ...Option) *Server {
	s := &Server{opts: opts, items: map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, Chat) })
	mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, Responses) })
	mux.HandleFunc("POST /v1/responses/input_tokens", func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r,
			Responses)
	})
	mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, Messages) })
	mux.HandleFunc("POST /v1/messages/count_tokens", func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r,
			Messages)
	})
	local := httptest.NewServer(mux)
	t.Cleanup(local.Close)
	s.URL = local.URL
	return s
}

// Script appends replies.
func (s *Server) Script(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, replies...)
}

// Aside makes the server answer requests whose body contains a text with a reply of its own. Programs make such calls
// beside a conversation, at any time.
func (s *Server) Aside(text string, reply Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asides == nil {
		s.asides = map[string]Reply{}
	}
	s.asides[text] = reply
}

// Drop removes the replies that no request has taken.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = nil
}

// Requests returns all requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Refusals returns the refusals by rules, without those from the script.
func (s *Server) Refusals() []*Refusal {
	var out []*Refusal
	for _, r := range s.Requests() {
		if r.Refusal != nil && r.Refusal.Rule != "script" {
			out = append(out, r.Refusal)
		}
	}
	return out
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, api API) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	opts := slices.Clone(s.opts)
	for _, value := range r.Header.Values("anthropic-beta") {
		for beta := range strings.SplitSeq(value, ",") {
			opts = append(opts, Beta(strings.TrimSpace(beta)))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	requestID := s.ids.take("req_")
	counting := strings.HasSuffix(r.URL.Path, "_tokens")
	a, tokens, refusal := s.answer(r, api, body, collect(opts), counting)
	seen := Request{API: api, Path: r.URL.Path, Header: r.Header.Clone(), Body: body, Refusal: refusal}
	if a != nil {
		seen.Transformations = a.dropped
	}
	s.seen = append(s.seen, seen)

	id := "x-request-id"
	if api == Messages {
		id = "request-id"
	}
	w.Header().Set(id, requestID)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case refusal != nil:
		if refusal.Status == http.StatusTooManyRequests {
			w.Header().Set("retry-after", "1") // D/rate-limits
		}
		w.WriteHeader(refusal.Status)
		w.Write(refusal.body(api, requestID))
	case counting && api == Messages:
		w.Write(encode(map[string]any{"input_tokens": tokens}))
	case counting:
		w.Write(encode(map[string]any{"object": "response.input_tokens", "input_tokens": tokens}))
	case a.stream:
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, e := range a.events() {
			io.WriteString(w, wire([]event{e}))
			w.(http.Flusher).Flush()
		}
	case a.breaks != nil:
		w.WriteHeader(max(a.breaks.Status, http.StatusBadRequest))
		w.Write(a.breaks.body(api, requestID))
	default:
		limits(w.Header(), api)
		w.Write(a.plain())
	}
}

// answer checks a request and takes the next reply of the script, unless the request only counts tokens.
func (s *Server) answer(r *http.Request, api API, body []byte, o *options, counting bool) (*answer, int, *Refusal) {
	if refusal := authenticated(r, api); refusal != nil {
		return nil, 0, refusal
	}
	if counting && api == Messages { // max_tokens is not a parameter there
		if fields, err := read(body); err == nil && !fields.has("max_tokens") {
			body = encode(map[string]any(fields.with("max_tokens", 1)))
		}
	}
	var make func(Reply, *ids) *answer
	var tokens int
	var refusal *Refusal
	switch api {
	case Chat:
		c, refused := readChat(body, o)
		refusal = refused
		if refused == nil {
			make, tokens = c.answer, c.tokens()
		}
	case Responses:
		c, refused := readResponses(s.resolved(body), o)
		refusal = refused
		if refused == nil {
			make, tokens = c.answer, c.tokens()
		}
	case Messages:
		c, refused := readMessages(body, o)
		refusal = refused
		if refused == nil {
			make, tokens = c.answer, c.tokens()
		}
	}
	if refusal != nil || counting {
		return nil, tokens, refusal
	}
	reply := s.next(body)
	if reply.Fail != nil {
		return nil, tokens, reply.Fail
	}
	a := make(reply, &s.ids)
	a.created = 1_790_000_000
	if api == Responses {
		for _, item := range a.items {
			s.items[item["id"].(string)] = item
		}
	}
	return a, tokens, nil
}

// next returns the reply to a request.
func (s *Server) next(body []byte) Reply {
	for text, reply := range s.asides {
		if bytes.Contains(body, []byte(text)) {
			return reply
		}
	}
	if len(s.script) == 0 {
		return Say("OK.")
	}
	reply := s.script[0]
	s.script = s.script[1:]
	return reply
}

// resolved returns a body with its references replaced by the items that they refer to.
func (s *Server) resolved(body []byte) []byte {
	fields, err := read(body)
	if err != nil || !bytes.Contains(body, []byte("item_reference")) {
		return body
	}
	input := fields.list("input")
	for i, item := range objects(input) {
		if known := s.items[item.str("id")]; known != nil && kind(item) == "item_reference" {
			input[i] = known
		}
	}
	return encode(map[string]any(fields.with("input", input)))
}

func (o object) with(key string, v any) object {
	out := o.without(key)
	out[key] = v
	return out
}

// authenticated requires a key, which may be any, and a version from Anthropic's clients. D/errors; unquoted.
func authenticated(r *http.Request, api API) *Refusal {
	bearer := strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ")
	if api == Messages {
		if r.Header.Get("x-api-key") == "" && !bearer {
			return &Refusal{Rule: "messages/key", Status: 401, Type: "authentication_error", Message: "x-api-key " +
				"header is required"}
		}
		if r.Header.Get("anthropic-version") == "" {
			refusal := refuse("anthropic-version: header is required")
			refusal.Rule = "messages/version"
			return refusal
		}
		return nil
	}
	if !bearer {
		return &Refusal{Rule: "openai/key", Status: 401, Type: "invalid_request_error", Message: "You didn't provide " +
			"an API " +
			"key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: " +
			"Bearer " +
			"YOUR_KEY)."}
	}
	return nil
}

// limits sets the headers of D/rate-limits, and OpenAI's (codex#88, agent-zero#711).
func limits(h http.Header, api API) {
	for i, kind := range []string{"requests", "tokens"} {
		limit := strconv.Itoa([]int{1000, 2_000_000}[i])
		if api == Messages {
			h.Set("anthropic-ratelimit-"+kind+"-limit", limit)
			h.Set("anthropic-ratelimit-"+kind+"-remaining", limit)
			h.Set("anthropic-ratelimit-"+kind+"-reset", "2026-11-22T12:00:00Z")
			continue
		}
		h.Set("x-ratelimit-limit-"+kind, limit)
		h.Set("x-ratelimit-remaining-"+kind, limit)
		h.Set("x-ratelimit-reset-"+kind, "1m7.5s")
	}
}
