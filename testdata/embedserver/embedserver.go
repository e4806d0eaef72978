// Package embedserver serves `/embeddings` in OpenAI's protocol on loopback, for tests. Its model is small but real: it
// hashes the words of a text and their letter trigrams to directions in space and adds them up, so texts that share
// words or parts of words are near. It knows no meanings.
package embedserver

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"unicode"
)

// Dimensions is the default number of dimensions of a vector.
const Dimensions = 256

// Server is a provider. Its methods are safe for concurrent use.
type Server struct {
	*httptest.Server

	mu     sync.Mutex
	status int
	word   string
	odd    map[string][]float32
	wait   chan struct{}
	length int
	calls  int
	texts  []string
	key    string
}

// New starts a server that requires this key.
func New(key string) *Server {
	s := &Server{key: key, length: Dimensions}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/embeddings", s.embeddings)
	s.Server = httptest.NewServer(mux)
	return s
}

// Fail makes the server answer every request with a status; 0 ends that.
func (s *Server) Fail(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// Refuse makes the server refuse every request that contains a word, as a provider refuses a text that is too long for
// its model.
func (s *Server) Refuse(word string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.word = word
}

// Answer gives every text that contains a word this vector, whatever the request asks for.
func (s *Server) Answer(word string, v []float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.odd = maps.Clone(s.odd)
	if s.odd == nil {
		s.odd = map[string][]float32{}
	}
	s.odd[word] = v
}

// Lengthen changes the default number of dimensions.
func (s *Server) Lengthen(dimensions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.length = dimensions
}

// Stall makes every request wait until release is called.
func (s *Server) Stall() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := make(chan struct{})
	s.wait = wait
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(wait)
		s.wait = nil
	})
}

// Calls returns the number of requests so far.
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Texts returns all embedded texts, in order of arrival.
func (s *Server) Texts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.texts...)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "7")
	}
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": "no", "type": code, "code": code}})
}

func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls++
	status, wait, word, odd, length := s.status, s.wait, s.word, s.odd, s.length
	s.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-r.Context().Done():
			return
		}
	}
	var body struct {
		Input      json.RawMessage `json:"input"`
		Model      string          `json:"model"`
		Dimensions int             `json:"dimensions"`
		Encoding   string          `json:"encoding_format"`
	}
	var texts []string
	switch one := ""; {
	case status != 0:
		refuse(w, status, "failed")
		return
	case r.Header.Get("Authorization") != "Bearer "+s.key:
		refuse(w, http.StatusUnauthorized, "invalid_api_key")
		return
	case json.NewDecoder(r.Body).Decode(&body) != nil:
		refuse(w, http.StatusBadRequest, "invalid_request_error")
		return
	case json.Unmarshal(body.Input, &one) == nil:
		texts = []string{one}
	case json.Unmarshal(body.Input, &texts) != nil:
		refuse(w, http.StatusBadRequest, "invalid_request_error")
		return
	}
	if word != "" && strings.Contains(strings.Join(texts, "\n"), word) {
		refuse(w, http.StatusBadRequest, "context_length_exceeded")
		return
	}
	if body.Dimensions == 0 {
		body.Dimensions = length
	}
	var data []map[string]any
	tokens := 0
	for i, text := range texts {
		v := Embed(body.Model, text, body.Dimensions)
		for word, other := range odd {
			if strings.Contains(text, word) {
				v = other
			}
		}
		var shown any = v
		if body.Encoding == "base64" {
			var b []byte
			for _, x := range v {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
			shown = base64.StdEncoding.EncodeToString(b)
		}
		data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": shown})
		tokens += len(strings.Fields(text))
	}
	s.mu.Lock()
	s.texts = append(s.texts, texts...)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"object": "list", "model": body.Model, "data": data,
		"usage": map[string]any{"prompt_tokens": tokens, "total_tokens": tokens}})
}

// Embed computes the vector of a text. Each model has its own directions.
func Embed(model, text string, dimensions int) []float32 {
	v := make([]float32, dimensions)
	add := func(feature string, weight float32) {
		h := fnv.New64a()
		h.Write([]byte(model + "\x00" + feature))
		for x, n := h.Sum64(), 0; n < 8; n++ { // eight signed positions in the vector for each feature
			x = x*6364136223846793005 + 1442695040888963407
			at := int(x >> 33 % uint64(dimensions))
			if x>>63 == 0 {
				v[at] += weight
			} else {
				v[at] -= weight
			}
		}
	}
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	for _, word := range words {
		weight := float32(1)
		if len(word) < 4 {
			weight = .2 // mostly words without meaning by themselves
		}
		add(word, weight)
		for runes := []rune("<" + word + ">"); len(runes) >= 3; runes = runes[1:] {
			add(string(runes[:3]), weight/2)
		}
	}
	if len(words) == 0 {
		v[0] = 1
	}
	return v
}
