package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// stepping is a provider in a separate process that sends its stream one event at a time.
type stepping struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	addr string
}

// startStepping starts a stepping provider at an address; port 0 picks a port.
func startStepping(t *testing.T, addr string) *stepping {
	t.Helper()
	s := &stepping{t: t, cmd: exec.Command(os.Args[0])}
	s.cmd.Env = append(os.Environ(), neighbourTask+"=provider "+addr)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		s.in, err = s.cmd.StdinPipe()
	}
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	if _, err := fmt.Fscanln(out, &s.addr); err != nil {
		t.Fatal(err)
	}
	return s
}

// send makes the provider send an event.
func (s *stepping) send(event string) {
	line, _ := json.Marshal(event)
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		s.t.Error(err)
	}
}

// kill ends the process as a crash would.
func (s *stepping) kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// provideSteps is the main function of that process: it answers each request with the events that it reads from
// standard input, one in each line.
func provideSteps(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	next := make(chan string)
	go func() {
		_ = http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			for {
				select {
				case event := <-next:
					_, _ = io.WriteString(w, event)
					w.(http.Flusher).Flush()
					if strings.Contains(event, "[DONE]") || strings.Contains(event, `"message_stop"`) ||
						strings.Contains(event, `"response.completed"`) {
						return
					}
				case <-r.Context().Done():
					return
				}
			}
		}))
	}()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var event string
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return err
		}
		next <- event
	}
	return nil
}

// streaming is a protocol's request for a streamed answer.
type streaming struct {
	api       providers.API
	path, ask string
}

var streamings = map[string]streaming{
	"chat": {providers.Chat, "/v1/chat/completions",
		`{"model":"gpt-4.1","stream":true,"messages":[{"role":"user","content":"q"}]}`},
	"responses": {providers.Responses, "/v1/responses", `{"model":"gpt-5.5","stream":true,"input":"q"}`},
	"messages": {providers.Messages, "/v1/messages",
		`{"model":"claude-opus-5-5","stream":true,"max_tokens":100,"messages":[{"role":"user","content":"q"}]}`},
}

// events returns the events of a complete answer.
func (s *streaming) events(t *testing.T) []string {
	whole := providers.Start(t)
	whole.Script(providers.Say("A few words."))
	req, err := http.NewRequest("POST", whole.URL+s.path, strings.NewReader(s.ask))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk")
	req.Header.Set("X-Api-Key", "sk")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	events := strings.SplitAfter(string(raw), "\n\n")
	if err != nil || res.StatusCode != 200 || len(events) < 4 {
		t.Fatalf("%d %s %v", res.StatusCode, raw, err)
	}
	return events[:len(events)-1]
}

// TestCampaignProxyKills kills the program, and then the provider, after events of a model's answer: after each event,
// or in the short form after the first and the last ones. Before the last event nothing is stored, after it the whole
// exchange is. A client that repeats its call after the restart finds one turn, not two.
func TestCampaignProxyKills(t *testing.T) {
	t.Parallel()
	for name, s := range streamings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killWithin(t, &s)
		})
	}
}

func killWithin(t *testing.T, s *streaming) {
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	events, p, folder := s.events(t), startStepping(t, "127.0.0.1:0"), t.TempDir()
	environment := []string{"OPENAI_BASE_URL=http://" + p.addr + "/v1", "ANTHROPIC_BASE_URL=http://" + p.addr}
	launch := func() *process {
		up, err := launchWith(binary, folder, environment)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(up.kill)
		return up
	}
	for n := 1; n <= len(events); n++ {
		if !campaign.Long() && n > 1 && n < len(events)-1 {
			continue
		}
		session := fmt.Sprintf("killed-%d", n)
		up := launch()
		body, lines := s.begin(t, up, session, p, events[:n])
		up.kill()
		if rest, err := io.ReadAll(lines); err == nil && n < len(events) {
			t.Errorf("killed behind event %d of %d: the stream ends well, with %q", n, len(events), rest)
		}
		_ = body.Close()
		up = launch()
		want := ""
		if n == len(events) {
			want = "user assistant"
		}
		c := converse(up.client(t), "s")
		if roles := c.roles(session); roles != want {
			t.Errorf("killed behind event %d of %d: %q is stored, want %q", n, len(events), roles, want)
		}
		s.again(t, up, session, p, events)

		session = fmt.Sprintf("alone-%d", n)
		body, lines = s.begin(t, up, session, p, events[:n])
		p.kill()
		rest, err := io.ReadAll(lines)
		_ = body.Close()
		broke := strings.Contains(string(rest), "error") || strings.Contains(string(rest), "failed")
		if err != nil || broke != (n < len(events)) {
			t.Errorf("the provider killed behind event %d of %d: the client got %q, %v", n, len(events), rest, err)
		}
		if roles := c.roles(session); roles != want {
			t.Errorf("the provider killed behind event %d of %d: %q is stored, want %q", n, len(events), roles, want)
		}
		p = startStepping(t, p.addr)
		s.again(t, up, session, p, events)
		up.kill()
	}
}

// begin sends a call and lets its answer proceed to a given event. It returns the client's stream.
func (s *streaming) begin(t *testing.T, up *process, session string, p *stepping, events []string) (io.Closer, *bufio.Reader) {
	t.Helper()
	p.send(events[0]) // otherwise the answer does not begin
	body := up.call(t, t.Context(), s, session)
	lines := bufio.NewReader(body)
	for i, e := range events {
		if i > 0 {
			p.send(e)
		}
		if event, err := readEvent(lines); event != e {
			t.Fatalf("%q arrived, want %q, %v", event, e, err)
		}
	}
	return body, lines
}

// again repeats a call, which now gets its complete answer.
func (s *streaming) again(t *testing.T, up *process, session string, p *stepping, events []string) {
	t.Helper()
	body, _ := s.begin(t, up, session, p, events)
	if roles := converse(up.client(t), "s").roles(session); roles != "user assistant" {
		t.Errorf("%s, sent again: %q", session, roles)
	}
	_ = body.Close()
}

// call sends a model call and returns the stream of its answer.
func (p *process) call(t *testing.T, ctx context.Context, s *streaming, session string) io.ReadCloser {
	req, err := http.NewRequestWithContext(ctx, "POST", p.url+s.path, strings.NewReader(s.ask))
	if err != nil {
		t.Error(err)
		return io.NopCloser(new(bytes.Buffer))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer sk-client")
	req.Header.Set("X-Api-Key", "sk-client")
	req.Header.Set("Anthropic-Version", "2023-06-01")
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
