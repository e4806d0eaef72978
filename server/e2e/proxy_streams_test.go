package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// silent is a provider whose streams send one word and then nothing, until their client has gone.
func silent(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, word)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const word = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant",` +
	`"content":"Well"}}]}` + "\n\n"

// TestCampaignIdleStreams opens streams whose provider has gone silent, each in a session of its own, and checks how
// much server memory they take. A stream may take 48 KiB, so that 2,000 take less than 100 MB, and five times its
// prompt, which is kept until the exchange is stored. The garbage collector runs early here, so that garbage counts for
// little.
//
//	scripts/campaigns -run IdleStreams ./server/e2e
func TestCampaignIdleStreams(t *testing.T) {
	t.Setenv("GOGC", "3")
	for _, messages := range []int{1, 100} {
		for _, mode := range []string{"off", "observe", "assemble"} {
			if campaign.Long() || mode == "assemble" {
				t.Run(fmt.Sprintf("%s, %d messages", mode, messages), func(t *testing.T) {
					idleStreams(t, mode, prompt(messages), campaign.Size(200, 2000))
				})
			}
		}
	}
}

func idleStreams(t *testing.T, mode, body string, streams int) {
	p := startProxy(t, t.TempDir(), silent(t))
	opened := func(prefix string, n int) []net.Conn { // by eight clients at once
		conns := make([]net.Conn, n)
		var group sync.WaitGroup
		for from := range 8 {
			group.Go(func() {
				for i := from; i < n; i += 8 {
					conns[i] = openStream(t, p, fmt.Sprint(prefix, i), mode, body)
				}
			})
		}
		group.Wait()
		return conns
	}
	closed := func(conns []net.Conn) {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	closed(opened("first-", 32)) // work that is done once, such as making policy instances for simultaneous calls
	c := p.client(t)
	open := func(n int) bool {
		return strings.Contains(string(c.get("/metrics").body), fmt.Sprintf("mneme_http_streams_open %d\n", n))
	}
	for !open(0) { // until the server has noticed that the first ones are gone
	}
	without := p.anonymous(t)
	defer closed(opened("s", streams))
	each := func() int { return (p.anonymous(t) - without) * 1024 / streams }
	// Meanwhile the store's tables in memory and the heap grow a little too, whatever the number of streams is.
	most := 48<<10 + 5*len(body) + 8<<20/streams
	await(t, func() bool { // until the garbage collector has run, which other requests trigger
		return open(streams) && each() <= most
	}, func() string { return fmt.Sprintf("a stream takes %d bytes, want at most %d", each(), most) })
	t.Logf("prompts of %d bytes: %d MiB without streams; each of %d takes %d KiB", len(body), without>>10, streams,
		each()>>10)
}

// prompt returns a model call whose history has messages of 200 bytes.
func prompt(messages int) string {
	var list []string
	for i := range messages {
		role := []string{"user", "assistant"}[i%2]
		if i == messages-1 {
			role = "user"
		}
		list = append(list, fmt.Sprintf(`{"role":%q,"content":"%d: %s"}`, role, i, strings.Repeat("Some words that were said. ", 8)))
	}
	return `{"model":"gpt-4.1","stream":true,"messages":[` + strings.Join(list, ",") + `]}`
}

// openStream sends a model call and returns its connection after the first event.
func openStream(t *testing.T, p *process, session, mode, body string) net.Conn {
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Error(err)
		return conn
	}
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Mneme-Key: %s\r\n"+
		"Authorization: Bearer sk-client\r\nX-Mneme-Session: %s\r\nX-Mneme-Mode: %s\r\nContent-Length: %d\r\n\r\n%s",
		p.key, session, mode, len(body), body)
	in := bufio.NewReaderSize(conn, 1024)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Error(err)
		return conn
	}
	got := make([]byte, len(word))
	if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != word {
		t.Errorf("%d %q %v", res.StatusCode, got, err)
	}
	return conn
}
