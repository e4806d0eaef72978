package server

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// encoded returns bytes in a content encoding. Each piece is flushed, as a stream's events are.
func encoded(t testing.TB, encoding string, pieces ...string) [][]byte {
	t.Helper()
	var b bytes.Buffer
	var w interface {
		io.WriteCloser
		Flush() error
	}
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	var out [][]byte
	for i, piece := range pieces {
		_, err := io.WriteString(w, piece)
		if err == nil && i == len(pieces)-1 {
			err = w.Close()
		} else if err == nil {
			err = w.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, bytes.Clone(b.Bytes()))
		b.Reset()
	}
	return out
}

// begin begins a call of Chat Completions and returns its response, whose body is still to be read.
func (s *site) begin(body string, headers ...string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequest("POST", "http://"+s.addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i, list := 0, callHeaders(headers...); i < len(list); i += 2 {
		req.Header.Set(list[i], list[i+1])
	}
	return s.send(req)
}

// TestEncodedAnswers calls a provider that answers in a content encoding: the client gets the answer decoded, event by
// event, and it is stored.
func TestEncodedAnswers(t *testing.T) {
	t.Parallel()
	events := []string{`data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}}]}` + "\n\n",
		`data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n", "data: [DONE]\n\n"}
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		for _, streams := range []bool{false, true} {
			pieces, media := []string{choice(reply2, "stop")}, "application/json"
			if streams {
				pieces, media = events, "text/event-stream"
			}
			wire := encoded(t, encoding, pieces...)
			next := make(chan struct{}, len(wire))
			next <- struct{}{}
			provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Accept-Encoding"); got != encoding {
					t.Errorf("the provider may answer in %q", got)
				}
				w.Header().Set("Content-Type", media)
				w.Header().Set("Content-Encoding", encoding)
				for _, piece := range wire {
					<-next
					_, _ = w.Write(piece)
					w.(http.Flusher).Flush()
				}
			}))
			s := profiled(t, &recorder{Server: provider}, `{"encodings":["`+encoding+`"]}`)
			resp := s.begin(`{"model":"m","stream":`+fmt.Sprint(streams)+`,"messages":[`+question1+`]}`, "X-Mneme-Session", "s")
			var got []string
			for _, piece := range pieces { // The provider sends an event once the client has the one before.
				b := make([]byte, len(piece))
				if _, err := io.ReadFull(resp.Body, b); err != nil {
					t.Fatalf("%s: %v after %q", encoding, err, got)
				}
				got = append(got, string(b))
				next <- struct{}{}
			}
			_ = resp.Body.Close()
			provider.Close()
			if !slices.Equal(got, pieces) || resp.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s: the client got %q, %v", encoding, got, resp.Header)
			}
			if a := s.texts("s"); len(a) != 2 {
				t.Errorf("%s: stored are %q", encoding, a)
			}
		}
	}
}

// TestEncodedCalls sends calls in a content encoding: in every mode the provider gets the decoded bytes without a header
// that says otherwise, and the exchange is stored.
func TestEncodedCalls(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"gzip", "br", "zstd", "GZIP", "identity"} {
		for _, mode := range []string{"off", "observe", "recall", "assemble"} {
			r := startRecorder(t, choice(reply2, "stop"))
			s := inFront(t, r.URL)
			plain := ` {"model":"m",` + "\n\t" + `"messages":[` + question1 + `],"seed":7}`
			body := plain
			if encoding != "identity" {
				body = string(encoded(t, strings.ToLower(encoding), plain)[0])
			}
			a := s.do("POST", "/v1/chat/completions", body, callHeaders("X-Mneme-Session", "s", "X-Mneme-Mode", mode, "Content-Encoding", encoding)...)
			if a.status != 200 || r.bodies[0] != plain || r.headers[0].Get("Content-Encoding") != "" {
				t.Errorf("%s, %s: %d %s: the provider got %q, %v", encoding, mode, a.status, a.body, r.bodies, r.headers)
			}
			if got := s.texts("s"); len(got) != 2 && mode != "off" {
				t.Errorf("%s, %s: stored are %q", encoding, mode, got)
			}
		}
	}
}

// TestEncodedCallsAreBounded sends bodies that expand to gigabytes, that are cut off, or whose encoding is unknown.
// None reaches the provider.
func TestEncodedCallsAreBounded(t *testing.T) {
	t.Parallel()
	r := startRecorder(t, choice(reply2, "stop"))
	s := inFront(t, r.URL)
	send := func(encoding, body string, status int, code string) {
		t.Helper()
		a := s.do("POST", "/v1/chat/completions", body, callHeaders("X-Mneme-Session", "s", "Content-Encoding", encoding)...)
		if a.status != status || !strings.Contains(string(a.body), code) {
			t.Errorf("%s: %d %s", encoding, a.status, a.body)
		}
	}
	zeros := strings.Repeat(" ", 64<<20)
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		bomb := string(encoded(t, encoding, zeros)[0])
		if encoding != "br" { // the others allow any number of streams: 16 GiB
			bomb = strings.Repeat(bomb, 256)
		}
		send(encoding, bomb, http.StatusRequestEntityTooLarge, "body_too_large")
		whole := string(encoded(t, encoding, `{"model":"m","messages":[`+question1+`]}`)[0])
		send(encoding, whole[:len(whole)-4], http.StatusBadRequest, "incomplete_body")
		send(encoding, "{}", http.StatusBadRequest, "incomplete_body")
	}
	send("deflate", "{}", http.StatusUnsupportedMediaType, "unsupported_encoding")
	send("gzip, br", "{}", http.StatusUnsupportedMediaType, "unsupported_encoding")
	if held := s.s.bytes.held(); held != 0 {
		t.Errorf("%d bytes of refused bodies are still counted", held)
	}
	if len(r.bodies) != 0 {
		t.Errorf("the provider got %q", r.bodies)
	}
	window, err := zstd.NewWriter(nil, zstd.WithWindowSize(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	send("zstd", string(window.EncodeAll([]byte(zeros), nil)), http.StatusBadRequest, "incomplete_body")
}

// TestQuestionsAboutRoutes sends HEAD and OPTIONS, and paths with a slash at their end, which go on as they are.
func TestQuestionsAboutRoutes(t *testing.T) {
	t.Parallel()
	var seen []string
	var mu sync.Mutex
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Method+" "+r.URL.Path)
		w.Header().Set("Openai-Version", "7")
	}))
	t.Cleanup(provider.Close)
	s := inFront(t, provider.URL)
	for asked, want := range map[string]string{
		"HEAD /v1/models": "HEAD /v1/models", "HEAD /v1/files/file_1": "HEAD /v1/files/file_1", "OPTIONS /v1/chat/completions": "OPTIONS /v1/chat/completions",
		"OPTIONS /p/default/s/x/v1/responses": "OPTIONS /v1/responses", "GET /v1/models/meta/llama": "GET /v1/models/meta/llama",
		"HEAD /v1/models/": "HEAD /v1/models", "OPTIONS /v1/messages/": "OPTIONS /v1/messages",
	} {
		seen = nil
		method, path, _ := strings.Cut(asked, " ")
		a := s.do(method, path, "", callHeaders()...)
		if a.status != 200 || a.header.Get("Openai-Version") != "7" || !slices.Equal(seen, []string{want}) {
			t.Errorf("%s: %d %s: the provider got %q", asked, a.status, a.body, seen)
		}
		if a := s.do(method, path, "", callHeaders("X-Mneme-Key", "")...); a.status != http.StatusUnauthorized {
			t.Errorf("%s without a key: %d", asked, a.status)
		}
	}
}
