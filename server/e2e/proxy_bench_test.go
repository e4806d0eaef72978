package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// BenchmarkProxyFirstByte sends the same model calls to a provider directly and through the program, in alternation,
// and reports how much later the first byte of a stream arrives, for sessions of 10, 200 and 1,000 turns, and how much
// processor time the program takes for a call, which depends less on what else the machine does. Each call sends the whole
// history, as clients do.
//
//	go test -run '^$' -bench ProxyFirstByte -benchtime 500x ./server/e2e
func BenchmarkProxyFirstByte(b *testing.B) {
	for _, turns := range []int{10, 200, 1000} {
		for _, mode := range []string{"off", "observe", "assemble"} {
			b.Run(fmt.Sprintf("%s/%d", mode, turns), func(b *testing.B) { firstBytes(b, mode, turns) })
		}
	}
}

func firstBytes(b *testing.B, mode string, turns int) {
	provider := providers.Start(b)
	p := startProxy(b, b.TempDir(), provider.URL)
	var told []object
	for i := range turns {
		told = append(told, user(fmt.Sprintf("Question %d: %s", i, strings.Repeat("what is said of it? ", 10))),
			assistant(fmt.Sprintf("Answer %d: %s", i, strings.Repeat("this is what is said. ", 10))))
	}
	direct := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	through := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	var times [2][]time.Duration
	// A session serves only some calls, so that its length changes little. Its first calls are not counted, because
	// they do work that is done once.
	const calls, once = 25, 5
	spent, worked := time.Duration(0), 0
	for session := 0; len(times[0]) < b.N; session++ {
		history := told[:len(told):len(told)]
		for i := range once + min(calls, b.N-len(times[0])) {
			question := user(fmt.Sprintf("And question %d?", i))
			body, err := json.Marshal(object{"model": "gpt-4.1", "stream": true, "messages": append(history, question)})
			if err != nil {
				b.Fatal(err)
			}
			took := [2]time.Duration{firstByte(b, direct, provider.URL, "", "", "", i, body), 0}
			before := p.processorTime(b)
			took[1] = firstByte(b, through, p.url, p.key, mode, fmt.Sprint("s", session), i, body)
			history = append(history, question, assistant("OK.")) // the provider's answer
			if i >= once {
				times[0], times[1] = append(times[0], took[0]), append(times[1], took[1])
				spent, worked = spent+p.processorTime(b)-before, worked+1
			}
		}
	}
	if refused := provider.Refusals(); len(refused) > 0 {
		b.Fatal(refused[0])
	}
	var added []time.Duration
	for i := range times[0] {
		added = append(added, times[1][i]-times[0][i])
	}
	for _, list := range [][]time.Duration{times[0], times[1], added} {
		slices.Sort(list)
	}
	b.ReportMetric(float64((spent/time.Duration(worked)).Microseconds())/1000, "processor-ms")
	load, _ := os.ReadFile("/proc/loadavg")
	for _, part := range []int{50, 99} {
		at := len(added) * part / 100
		b.Logf("%s, %d turns, p%d: itself %v, through Mneme %v, ratio %.2f, difference %v", mode, turns, part, times[0][at],
			times[1][at], float64(times[1][at])/float64(times[0][at]), times[1][at]-times[0][at])
		b.ReportMetric(float64((times[1][at]-times[0][at]).Microseconds())/1000, fmt.Sprintf("added-p%d-ms", part))
	}
	b.Logf("load %s", strings.TrimSpace(string(load)))
}

// processorTime returns the processor time that a server has taken. Linux counts it in nanoseconds in schedstat, for each
// thread.
func (p *process) processorTime(b *testing.B) (total time.Duration) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, thread := range threads {
		var on int64
		if raw, err := os.ReadFile(thread); err == nil {
			_, _ = fmt.Sscan(string(raw), &on)
		}
		total += time.Duration(on)
	}
	return total
}

// firstByte sends the i-th model call of a session and returns the time until the first byte of the answer's body.
func firstByte(b *testing.B, c *http.Client, url, key, mode, session string, i int, body []byte) time.Duration {
	req, err := http.NewRequest("POST", url+"/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer sk-client")
	if key != "" {
		req.Header.Set("X-Mneme-Key", key)
		req.Header.Set("X-Mneme-Session", session)
		req.Header.Set("X-Mneme-Mode", mode)
	}
	began := time.Now()
	res, err := c.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, 1)
	_, err = io.ReadFull(res.Body, first)
	took := time.Since(began)
	rest, _ := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 || !strings.Contains(string(rest), "[DONE]") {
		b.Fatalf("%d %s %v", res.StatusCode, rest, err)
	}
	// The first call has the whole history, which may be too long for a window before it is stored.
	said := res.Header.Get("X-Mneme-Mode") == mode && (mode == "off" || res.Header.Get("X-Mneme-Matched") == "extend")
	if key != "" && i > 0 && !said {
		b.Fatal(res.Header)
	}
	return took
}
