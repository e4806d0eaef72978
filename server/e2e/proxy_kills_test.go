package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// stepping is a provider whose stream goes on one event at a time.
type stepping struct {
	url  string
	next chan string
}

func steps(t *testing.T) *stepping {
	s := &stepping{next: make(chan string)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case piece, open := <-s.next:
				if !open {
					return
				}
				_, _ = io.WriteString(w, piece)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// TestCampaignProxyKills kills the program behind events of a model's answer: each of them, or the first and the last
// one in the short form. Before the last event has arrived nothing is stored, behind it all of the exchange is, and a
// client that sends its call again after the restart finds one turn, not two.
func TestCampaignProxyKills(t *testing.T) {
	t.Parallel()
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	whole := providers.Start(t)
	whole.Script(providers.Say("A few words."))
	const ask = `{"model":"gpt-4.1","stream":true,"messages":[{"role":"user","content":"q"}]}`
	req, err := http.NewRequest("POST", whole.URL+"/v1/chat/completions", strings.NewReader(ask))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	events := strings.SplitAfter(string(raw), "\n\n")
	events = events[:len(events)-1]
	p := steps(t)
	folder := t.TempDir()
	environment := []string{"OPENAI_BASE_URL=" + p.url + "/v1"}
	for n := 1; n <= len(events); n++ {
		if !campaign.Long() && n > 1 && n < len(events) {
			continue
		}
		session := fmt.Sprintf("killed-%d", n)
		up, err := launchWith(binary, folder, environment)
		if err != nil {
			t.Fatal(err)
		}
		got, broken := make(chan string), make(chan struct{})
		var once sync.Once
		go func() {
			defer once.Do(func() { close(broken) })
			body := up.call(t, t.Context(), session, ask)
			defer body.Close()
			lines := bufio.NewReader(body)
			for {
				event, err := readEvent(lines)
				if err != nil {
					return
				}
				got <- event
			}
		}()
		for _, e := range events[:n] {
			p.next <- e
			if event := <-got; event != e {
				t.Fatalf("%q arrived, want %q", event, e)
			}
		}
		up.kill()
		<-broken
		up, err = launchWith(binary, folder, environment)
		if err != nil {
			t.Fatal(err)
		}
		c := converse(up.client(t), "s")
		want := ""
		if n == len(events) {
			want = "user assistant"
		}
		if roles := c.roles(session); roles != want {
			t.Errorf("killed behind event %d of %d: %q is stored, want %q", n, len(events), roles, want)
		}
		go func() {
			for _, e := range events {
				p.next <- e
			}
			p.next <- ": over\n\n"
		}()
		body := up.call(t, t.Context(), session, ask)
		lines := bufio.NewReader(body)
		for range events {
			if _, err := readEvent(lines); err != nil {
				t.Fatal(err)
			}
		}
		if roles := c.roles(session); roles != "user assistant" {
			t.Errorf("killed behind event %d of %d, and sent again: %q", n, len(events), roles)
		}
		_ = body.Close()
		up.kill()
	}
}

// call sends a model call and gives the stream of its answer.
func (p *process) call(t *testing.T, ctx context.Context, session, body string) io.ReadCloser {
	req, err := http.NewRequestWithContext(ctx, "POST", p.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return io.NopCloser(new(bytes.Buffer))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer sk-client")
	req.Header.Set("X-Mneme-Key", p.key)
	req.Header.Set("X-Mneme-Session", session)
	req.Header.Set("X-Mneme-Mode", "observe")
	res, err := new(http.Transport).RoundTrip(req)
	if err != nil {
		t.Error(err)
		return io.NopCloser(new(bytes.Buffer))
	}
	return res.Body
}

// readEvent reads up to the blank line that ends an event.
func readEvent(r *bufio.Reader) (string, error) {
	var event strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		event.WriteString(line)
		if line == "\n" {
			return event.String(), nil
		}
	}
}
