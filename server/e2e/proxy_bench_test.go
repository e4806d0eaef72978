package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// BenchmarkProxyFirstByte sends the same model calls to a provider itself and through the program in front of it, one
// after the other in turns, and reports how much later the first byte of a stream comes: of sessions of 10, 200 and
// 1,000 turns, whose whole history each call sends, as clients do.
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
	c := p.client(b)
	var history []object
	for i := range turns {
		turn := []object{user(fmt.Sprintf("Question %d: %s", i, strings.Repeat("what is said of it? ", 10))),
			assistant(fmt.Sprintf("Answer %d: %s", i, strings.Repeat("this is what is said. ", 10)))}
		c.post(projectPath+"/turns", object{"session_id": "s", "messages": turn}).want(201)
		history = append(history, turn...)
	}
	direct := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	through := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	var times [2][]time.Duration
	for i := 0; i < b.N+5; i++ {
		question := user(fmt.Sprintf("And question %d?", i))
		body, err := json.Marshal(object{"model": "gpt-4.1", "stream": true, "messages": append(history, question)})
		if err != nil {
			b.Fatal(err)
		}
		took := [2]time.Duration{firstByte(b, direct, provider.URL, "", "", body), 0}
		took[1] = firstByte(b, through, p.url, p.key, mode, body)
		history = append(history, question, assistant("OK.")) // which is what the provider says
		if i >= 5 {                                           // the first ones pay for what happens once
			times[0], times[1] = append(times[0], took[0]), append(times[1], took[1])
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
	load, _ := os.ReadFile("/proc/loadavg")
	for _, part := range []int{50, 99} {
		at := len(added) * part / 100
		b.Logf("%s, %d turns, p%d: itself %v, through Mneme %v, ratio %.2f, difference %v", mode, turns, part, times[0][at],
			times[1][at], float64(times[1][at])/float64(times[0][at]), times[1][at]-times[0][at])
		b.ReportMetric(float64((times[1][at]-times[0][at]).Microseconds())/1000, fmt.Sprintf("added-p%d-ms", part))
	}
	b.Logf("load %s", strings.TrimSpace(string(load)))
}

// firstByte sends a model call and gives the time until the first byte of its answer's body.
func firstByte(b *testing.B, c *http.Client, url, key, mode string, body []byte) time.Duration {
	req, err := http.NewRequest("POST", url+"/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer sk-client")
	if key != "" {
		req.Header.Set("X-Mneme-Key", key)
		req.Header.Set("X-Mneme-Session", "s")
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
	if key != "" && (res.Header.Get("X-Mneme-Mode") != mode || mode != "off" && res.Header.Get("X-Mneme-Matched") != "extend") {
		b.Fatal(res.Header)
	}
	return took
}
