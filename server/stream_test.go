package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// scripted exports and imports what a test sets.
type scripted struct {
	mu     sync.Mutex
	export func(ctx context.Context, w io.Writer) error
	take   func(body io.Reader) error
	refuse error
}

// says changes or inspects the script between requests.
func (f *scripted) says(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// answer replaces the server's transfer handlers.
func (f *scripted) answer(o *setup) {
	answering("exportTenant", func(_ context.Context, c *call[nothing]) (out streamed, err error) {
		f.says(func() { out, err = c.written(ndjsonType, f.export), f.refuse })
		return out, err
	})(o)
	answering("importTenant", func(_ context.Context, c *call[rawBody]) (transfer.ImportReport, error) {
		var take func(io.Reader) error
		f.says(func() { take = f.take })
		return transfer.ImportReport{}, take(c.bodyStream())
	})(o)
}

const someLine = "a line of the file, of some length, so that there is something to be sent\n"

// A long response arrives completely at a slow reader.
func TestStreamedResponse(t *testing.T) {
	t.Parallel()
	const lines = 200_000
	e := &scripted{export: func(_ context.Context, w io.Writer) error {
		for range lines {
			if _, err := io.WriteString(w, someLine); err != nil {
				return err
			}
		}
		return nil
	}}
	s := start(t, e.answer, limited(func(l *limits) { l.write = 100 * time.Millisecond }))
	conn := s.dial()
	fmt.Fprintf(conn, "GET /api/v1/export HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
		s.key("tenant_admin"))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != 200 || res.Header.Get("Content-Type") != ndjsonType {
		t.Fatalf("%v, %v", res, err)
	}
	got := 0
	for piece := range 10 { // longer than the time for a whole response, each piece within it
		n, err := io.CopyN(io.Discard, res.Body, 1<<20)
		got += int(n)
		if err != nil {
			t.Fatalf("piece %d: %v", piece, err)
		}
		time.Sleep(15 * time.Millisecond)
	}
	rest, err := io.Copy(io.Discard, res.Body)
	if got += int(rest); err != nil || got != lines*len(someLine) {
		t.Errorf("%d bytes of %d: %v", got, lines*len(someLine), err)
	}
}

// A refusal before the first byte is a problem; a later failure is a broken response, never a short one.
func TestStreamedResponseBreaks(t *testing.T) {
	t.Parallel()
	e := &scripted{refuse: &fault.Error{Kind: fault.Forbidden, Code: "key_narrowed", Detail: "x"}}
	s := start(t, e.answer)
	if p := s.do("GET", "/api/v1/export", "").problem(t); p.Code != "key_narrowed" {
		t.Errorf("%+v", p)
	}
	e.says(func() { e.refuse = nil })
	for name, end := range map[string]func() error{
		"an error": func() error { return errors.New("the disk is gone") },
		"a panic":  func() error { panic("a defect") },
	} {
		e.says(func() {
			e.export = func(_ context.Context, w io.Writer) error {
				_, _ = io.WriteString(w, strings.Repeat(someLine, 1000))
				return end()
			}
		})
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.addr+"/api/v1/export", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer tenant_admin")
		res, err := s.trySend(req)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		if err == nil {
			t.Errorf("%s looks like a whole response", name)
		}
	}
	if !strings.Contains(s.log.String(), "a stream broke off") {
		t.Error("the log does not say so")
	}
	if a := s.do("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

// slowly returns a body in pieces, with pauses.
type slowly struct {
	pieces int
	pause  time.Duration
}

func (r *slowly) Read(b []byte) (int, error) {
	if r.pieces--; r.pieces < 0 {
		return 0, io.EOF
	}
	time.Sleep(r.pause)
	return copy(b, someLine), nil
}

// A streamed body may take longer than a whole request on other routes, may be larger than their limit, and reaches
// the handler as it was sent, in any framing.
func TestStreamedBody(t *testing.T) {
	t.Parallel()
	var got [32]byte
	var size int64
	e := &scripted{}
	e.take = func(body io.Reader) error {
		sum := sha256.New()
		n, err := io.Copy(sum, body)
		e.says(func() { size, got = n, [32]byte(sum.Sum(nil)) })
		return err
	}
	s := start(t, e.answer,
		limited(func(l *limits) { l.read, l.body = 4*time.Second, 1000 }))
	post := func(body io.Reader, length int64) answer {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+s.addr+"/api/v1/import", body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = length
		req.Header.Set("Authorization", "Bearer tenant_admin")
		req.Header.Set("Content-Type", ndjsonType)
		return read(t, s.send(req))
	}
	big := strings.Repeat(someLine, 100_000)
	for name, length := range map[string]int64{"with its length": int64(len(big)), "in chunks": -1} {
		a := post(strings.NewReader(big), length)
		e.says(func() {
			if a.status != 200 || size != int64(len(big)) || got != sha256.Sum256([]byte(big)) {
				t.Errorf("%s: %d, %d bytes of %d", name, a.status, size, len(big))
			}
		})
	}
	const pieces = 5
	a := post(&slowly{pieces, 900 * time.Millisecond}, -1)
	e.says(func() {
		if a.status != 200 || size != int64(pieces*len(someLine)) {
			t.Errorf("slowly: %d %s, %d bytes", a.status, a.body, size)
		}
	})

	hurried := start(t, e.answer, limited(func(l *limits) { l.read = 100 * time.Millisecond }))
	conn := hurried.dial()
	fmt.Fprintf(conn,
		"POST /api/v1/import HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\nhalf",
		hurried.key("tenant_admin"))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("a body that stops: %v, %v", res, err)
	}
	if a := s.do("POST", "/api/v1/import", "{}", "Content-Type", "application/json"); a.status != 415 {
		t.Errorf("as JSON: %d", a.status)
	}
	if a := s.do("POST", "/api/v1/import", "", "Content-Type", ndjsonType); a.status != 400 {
		t.Errorf("without a body: %d", a.status)
	}
	// A handler that does not read the rest still responds.
	e.says(func() {
		e.take = func(body io.Reader) error {
			_, err := io.CopyN(io.Discard, body, 10)
			return errors.Join(err, &fault.Error{Kind: fault.Invalid, Code: "invalid_export", Detail: "line 1"})
		}
	})
	if a := post(bytes.NewReader([]byte(big)), int64(len(big))); a.status != 422 {
		t.Errorf("refused early: %d", a.status)
	}
}
