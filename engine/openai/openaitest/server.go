// Package openaitest is a local server that implements the part of OpenAI's Chat Completions that summaries need. Tests
// script its responses, and its summaries say what they cover.
package openaitest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server listens on a free local port. It is safe for concurrent use.
type Server struct {
	// URL is the base URL to configure.
	URL string
	// Script is for requests that no other script matches.
	*Script

	http    *httptest.Server
	closing chan struct{}

	mu      sync.Mutex
	scripts []*Script // those that match some words
}

// Script says how some of the requests are answered, and records them.
type Script struct {
	mu       *sync.Mutex // the server's
	words    string
	next     []Behaviour
	always   Behaviour
	requests []*Request
	running  int
}

// Request is one request as it was received.
type Request struct {
	At            time.Time
	Authorization string
	Model         string
	MaxTokens     int
	System        string    // the instructions to the model
	Previous      string    // the running summary; "" if none
	Messages      []Message // to be summarised
	Body          []byte
	Answer        string // the summary in the response; "" if none, or not yet
	Canceled      bool   // the client disconnected first
}

// Message is one message to be summarised.
type Message struct {
	Turn    uint32 `json:"turn"`
	Speaker string `json:"speaker"`
	Text    string `json:"text"`
}

// Start starts a server that answers every request with Digest.
func Start() *Server {
	s := &Server{closing: make(chan struct{})}
	s.Script = &Script{mu: &s.mu, always: Digest}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.serve)
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL + "/v1"
	return s
}

// Close stops the server, and ends responses that are still held.
func (s *Server) Close() {
	close(s.closing)
	s.http.CloseClientConnections()
	s.http.Close()
}

// About returns a script for the requests whose messages contain the given words, so that tests can share a server.
// Initially it answers with Digest.
func (s *Server) About(words string) *Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	script := &Script{mu: &s.mu, words: words, always: Digest}
	s.scripts = append(s.scripts, script)
	return script
}

// Next appends behaviours for the next requests, one each.
func (s *Script) Next(behaviours ...Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = append(s.next, behaviours...)
}

// Always sets the behaviour for requests for which Next has set none.
func (s *Script) Always(b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always = b
}

// Requests returns copies of the requests received so far, including those in progress.
func (s *Script) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, len(s.requests))
	for i, r := range s.requests {
		out[i] = *r
	}
	return out
}

// Running returns the number of requests in progress.
func (s *Script) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	request, err := parse(body)
	if err != nil {
		http.Error(w, "not a chat completion's request", http.StatusBadRequest)
		return
	}
	request.At, request.Authorization = time.Now(), r.Header.Get("Authorization")
	script, behave := s.receive(request)
	behave(&Exchange{Request: *request, w: w, r: r, closing: s.closing, answering: func(text string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		request.Answer = text
	}})
	s.mu.Lock()
	defer s.mu.Unlock()
	script.running--
	request.Canceled = r.Context().Err() != nil
}

// receive records a request and returns its behaviour.
func (s *Server) receive(r *Request) (*Script, Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	script := s.Script
	for _, other := range s.scripts {
		if slices.ContainsFunc(r.Messages, func(m Message) bool { return strings.Contains(m.Text, other.words) }) {
			script = other
			break
		}
	}
	script.requests = append(script.requests, r)
	script.running++
	if len(script.next) == 0 {
		return script, script.always
	}
	b := script.next[0]
	script.next = script.next[1:]
	return script, b
}

// parse parses a request; of the data in the prompt, it parses the lines that are JSON.
func parse(body []byte) (*Request, error) {
	var posted struct {
		Model               string `json:"model"`
		MaxTokens           int    `json:"max_tokens"`
		MaxCompletionTokens int    `json:"max_completion_tokens"`
		Messages            []struct{ Role, Content string }
	}
	if err := json.Unmarshal(body, &posted); err != nil {
		return nil, err
	}
	out := &Request{Model: posted.Model, MaxTokens: max(posted.MaxTokens, posted.MaxCompletionTokens),
		Body: bytes.Clone(body)}
	for _, m := range posted.Messages {
		if m.Role == "system" {
			out.System += m.Content
			continue
		}
		for line := range strings.Lines(m.Content) {
			var data struct {
				Summary *string `json:"running_summary"`
				Message
			}
			if json.Unmarshal([]byte(line), &data) != nil {
				continue
			}
			if data.Summary != nil {
				out.Previous = *data.Summary
			}
			if data.Speaker != "" {
				out.Messages = append(out.Messages, data.Message)
			}
		}
	}
	return out, nil
}
