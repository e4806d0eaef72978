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
