// Command claude-files writes made session files of Claude Code, the same for the same seed, to measure what importing
// them takes:
//
//	go run ./scripts/claude-files -bytes 1000000000 -folder /tmp/made/projects
//	mneme import /tmp/made/projects
//	grep VmHWM /proc/SERVER/status
//
// As in real files, attachments and records of requests take most of the bytes, and calls are parallel.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	size := flag.Int64("bytes", 1e9, "`BYTES` to write in all")
	each := flag.Int64("each", 50e6, "`BYTES` of each file")
	folder := flag.String("folder", "", "`FOLDER` to write to")
	seed := flag.Uint64("seed", 1, "`SEED` of what is written")
	flag.Parse()
	if *folder == "" {
		log.Fatal("claude-files: name a -folder")
	}
	for n, left := 0, *size; left > 0; n++ {
		w := &writer{rng: rand.New(rand.NewPCG(*seed, uint64(n))), session: fmt.Sprintf("%08d-0000-4000-8000-%012d", *seed, n),
			at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * 24 * time.Hour)}
		if err := w.write(filepath.Join(*folder, "-made", w.session+".jsonl"), min(*each, left)); err != nil {
			log.Fatal("claude-files: ", err)
		}
		left -= w.size
	}
}

// writer writes one session.
type writer struct {
	rng     *rand.Rand
	out     *bufio.Writer
	session string
	parent  string
	at      time.Time
	rows    int
	size    int64
	failed  error
}

type row map[string]any

func (w *writer) write(name string, size int64) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w.out = bufio.NewWriter(f)
	for w.size < size && w.failed == nil {
		w.turn()
	}
	return errors.Join(w.failed, w.out.Flush(), f.Close())
}

// turn writes a question, two parallel calls with their results, and an answer, with what Claude Code notes beside them.
func (w *writer) turn() {
	w.chained(row{"type": "user", "message": row{"role": "user", "content": w.words(30)}})
	w.chained(row{"type": "attachment", "attachment": row{"type": "environment"}, "rendered": []row{{"content": w.words(1200)}}})
	w.line(row{"type": "api-request-blob", "sessionId": w.session, "message": row{"role": "user", "content": w.words(900)}})
	id := fmt.Sprintf("msg_%d", w.rows)
	var rows, calls []string
	for i := range 2 {
		call := fmt.Sprintf("toolu_%d_%d", w.rows, i)
		rows = append(rows, w.said(id, row{"type": "tool_use", "id": call, "name": "Read", "input": row{"path": w.words(2)}}))
		calls = append(calls, call)
	}
	for i := range calls {
		w.parent = rows[i]
		w.chained(row{"type": "user", "message": row{"role": "user", "content": []row{{"type": "tool_result", "tool_use_id": calls[i],
			"content": w.words(150)}}}})
	}
	w.said(fmt.Sprintf("msg_%d", w.rows), row{"type": "text", "text": w.words(60)})
}

// said writes a block of a message of the assistant and returns its row's id.
func (w *writer) said(id string, block row) string {
	return w.chained(row{"type": "assistant", "message": row{"id": id, "role": "assistant", "model": "made", "content": []row{block}}})
}

// chained writes a row of the tree and returns its id.
func (w *writer) chained(r row) string {
	w.rows++
	id := fmt.Sprintf("%s-%d", w.session, w.rows)
	w.at = w.at.Add(time.Second)
	r["uuid"], r["parentUuid"], r["sessionId"], r["isSidechain"] = id, nil, w.session, false
	r["timestamp"], r["cwd"], r["version"] = w.at.Format(time.RFC3339), "/made", "2.1.332"
	if w.parent != "" {
		r["parentUuid"] = w.parent
	}
	w.parent = id
	w.line(r)
	return id
}

func (w *writer) line(r row) {
	raw, err := json.Marshal(r)
	if err == nil {
		var n int
		n, err = w.out.Write(append(raw, '\n'))
		w.size += int64(n)
	}
	if w.failed == nil {
		w.failed = err
	}
}

// words returns made words.
func (w *writer) words(n int) string {
	var out strings.Builder
	for range n {
		for range 2 + w.rng.IntN(3) {
			out.WriteByte("bdfgklmnprstvz"[w.rng.IntN(14)])
			out.WriteByte("aeiou"[w.rng.IntN(5)])
		}
		out.WriteByte(' ')
	}
	return out.String()
}
