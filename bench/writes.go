package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// writes prints what turns cost the disk, and how much memory the server takes, for one build or two. Each row is one
// build with a number of writers, which have a session each; the builds take turns.
func writes(o options) error {
	builds := []struct{ name, program string }{{"**Mneme**", o.mneme}}
	if o.before != "" {
		builds = slices.Insert(builds, 0, struct{ name, program string }{"Mneme, before", o.before})
	}
	servers := make([]*mneme, len(builds))
	for i, b := range builds {
		of := o
		of.mneme = b.program
		m, err := startMneme(of)
		if err != nil {
			return err
		}
		defer m.stop()
		servers[i] = m
	}
	fmt.Println("| work | by | bytes written for each: process | device | each second | processor time | p50 | p99.9 | most `RssAnon` |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	body, err := json.Marshal(measuredTurn()) // 2.2 KB
	if err != nil {
		return err
	}
	turn := func(m *mneme, writer int) (float64, error) {
		named := append(fmt.Appendf(nil, `{"session_id":"writer-%d",`, writer), body[1:]...)
		_, us, err := m.post(m.key, "/projects/default/turns", "application/json", named, 201)
		return us, err
	}
	for _, writers := range []int{1, 8, 64} {
		title := fmt.Sprintf("turns of %d bytes, %d writers", len(body), writers)
		if !strings.Contains(title, o.only) {
			continue
		}
		for i, b := range builds {
			until := time.Now().Add(time.Duration(o.seconds) * time.Second)
			more := func() bool { return time.Now().Before(until) }
			if err := servers[i].printWrites(title, b.name, writers, turn, more); err != nil {
				return fmt.Errorf("%s: %s: %w", b.name, title, err)
			}
		}
	}
	n := int64(o.pick(100_000, 500))
	title := fmt.Sprintf("%d memories, 8 writers", n)
	if !strings.Contains(title, o.only) {
		return nil
	}
	all, err := transcripts()
	if err != nil {
		return err
	}
	texts := memoryTexts(whole(all), int(n))
	for i, b := range builds {
		var next atomic.Int64
		more := func() bool { return next.Load() < n }
		store := func(m *mneme, _ int) (float64, error) {
			return m.do(command{Do: keep, Text: texts[(next.Add(1)-1)%n]})
		}
		if err := servers[i].printWrites(title, b.name, 8, store, more); err != nil {
			return fmt.Errorf("%s: %s: %w", b.name, title, err)
		}
	}
	return nil
}

// measuredTurn returns a turn of four messages without its session: a question, a call of a tool, its result and an
// answer.
func measuredTurn() map[string]any {
	text := func(n int) string { return strings.Repeat("The harbour opens at nine o'clock. ", n/35+1)[:n] }
	return map[string]any{"messages": []map[string]any{
		{"role": "user", "content": text(400)},
		{"role": "assistant", "content": nil, "tool_calls": []map[string]any{{"id": "call_1", "type": "function",
			"function": map[string]any{"name": "look_up", "arguments": `{"query":"the harbour"}`}}}},
		{"role": "tool", "tool_call_id": "call_1", "content": text(900)},
		{"role": "assistant", "content": text(600)},
	}}
}

// printWrites has writers do work while more reports true, and prints a row.
func (m *mneme) printWrites(title, name string, writers int, do func(m *mneme, writer int) (float64, error),
	more func() bool) error {
	if _, err := do(m, 0); err != nil { // what happens once
		return err
	}
	before, err := m.disk()
	if err != nil {
		return err
	}
	sampling := make(chan struct{})
	most := make(chan int)
	go func() { most <- m.mostMemory(sampling) }()
	began := time.Now()
	took := make([][]float64, writers)
	failed := make([]error, writers)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for failed[w] == nil && more() {
				var us float64
				us, failed[w] = do(m, w)
				took[w] = append(took[w], us)
			}
		})
	}
	all.Wait()
	seconds := time.Since(began).Seconds()
	close(sampling)
	anon := <-most
	after, err := m.disk()
	if err := errors.Join(append(failed, err)...); err != nil {
		return err
	}
	walls := slices.Sorted(slices.Values(slices.Concat(took...)))
	n := float64(len(walls))
	fmt.Printf("| %s | %s | %.0f | %.0f | %.0f | %.0f µs | %.0f µs | %.1f ms | %d MB |\n", title, name,
		(after.process-before.process)/n, (after.device-before.device)/n, n/seconds, (after.cpu-before.cpu)/n,
		walls[len(walls)/2], walls[len(walls)*999/1000]/1000, anon)
	return nil
}

// written is what a server has written so far, in bytes, and the processor time that it has taken, in µs.
type written struct{ process, device, cpu float64 }

func (m *mneme) disk() (w written, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", m.cmd.Process.Pid))
	if err != nil {
		return w, err
	}
	_, rest, _ := strings.Cut(string(b), "\nwrite_bytes: ")
	if _, err := fmt.Sscan(rest, &w.process); err != nil {
		return w, fmt.Errorf("no write_bytes in %s", b)
	}
	if w.device, err = deviceBytes(m.folder); err != nil {
		return w, err
	}
	w.cpu, err = m.cpu()
	return w, err
}

// deviceBytes returns what was written to the device of a folder by all programs.
func deviceBytes(folder string) (float64, error) {
	var s syscall.Stat_t
	if err := syscall.Stat(folder, &s); err != nil {
		return 0, err
	}
	dev := uint64(s.Dev)
	major, minor := dev>>8&0xfff, dev&0xff|dev>>12&0xfff00
	b, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		f := strings.Fields(string(line))
		if len(f) > 9 && f[0] == strconv.FormatUint(major, 10) && f[1] == strconv.FormatUint(minor, 10) {
			sectors, err := strconv.ParseFloat(f[9], 64)
			return sectors * 512, err
		}
	}
	return 0, fmt.Errorf("%s is on no device that the system counts", filepath.Clean(folder))
}

// mostMemory samples the memory of the server that no file backs until stop is closed, and returns the most, in MB.
func (m *mneme) mostMemory(stop chan struct{}) (most int) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
		_, rest, _ := strings.Cut(string(b), "RssAnon:")
		var kib int
		if _, err := fmt.Sscan(rest, &kib); err == nil {
			most = max(most, kib*1024/1_000_000)
		}
		select {
		case <-stop:
			return most
		case <-tick.C:
		}
	}
}
