package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// system runs commands.
type system interface {
	// do runs one call and returns its wall time in µs.
	do(command) (us float64, err error)
	// run runs calls one after another.
	run([]command) (costs, error)
	// settle waits until everything stored can be found.
	settle() error
	stop()
}

// peer is a system of the table.
type peer struct {
	system
	name, is string
	does     []what
}

// startAll starts Mneme and its peers, Mneme first, or two builds of Mneme, the older first. stop ends them.
func startAll(o options) (systems []peer, stop func(), err error) {
	stop = func() {
		for _, p := range systems {
			p.stop()
		}
	}
	const is = "a server over HTTP; counts and syncs each turn; proves, hashes and keeps each window"
	all := []what{appendTurn, window, keep, search}
	if o.before != "" {
		older := o
		older.mneme = o.before
		m, err := startMneme(older)
		if err != nil {
			return nil, stop, err
		}
		systems = append(systems, peer{m, "Mneme, before", is, all})
	}
	m, err := startMneme(o)
	if err != nil {
		return systems, stop, err
	}
	systems = append(systems, peer{m, "**Mneme**", is, all})
	if o.before != "" {
		return systems, stop, nil
	}
	python, node := filepath.Join(o.peers, "venv", "bin", "python"), env("NODE", "node")
	const inAgent = "in the agent's process; "
	for _, p := range []struct {
		peer
		argv []string
	}{
		{peer{name: "LangChain trim_messages (Python)", is: inAgent + "messages in memory; counts characters; keeps nothing",
			does: []what{window}}, []string{python, "peer.py", "langchain"}},
		{peer{name: "LangChain trimMessages (JS)", is: "the same", does: []what{window}}, []string{node, "peer.mjs", "langchain"}},
		{peer{name: "LangGraph SqliteSaver + trim_messages", is: inAgent + "syncs each turn; writes the whole state again at each",
			does: []what{appendTurn, window}}, []string{python, "peer.py", "langgraph"}},
		{peer{name: "OpenAI Agents SQLiteSession", is: inAgent + "counts nothing; syncs each turn; the last 50 rows",
			does: []what{appendTurn, window}}, []string{python, "peer.py", "agents"}},
		{peer{name: "Mastra Memory + libsql", is: inAgent + "counts nothing; does not sync its turns; the last 50 messages",
			does: []what{appendTurn, window}}, []string{node, "peer.mjs", "mastra"}},
		{peer{name: "SQLite by hand", is: inAgent + "counts nothing; syncs each turn and memory; the last 50 rows; FTS5",
			does: all}, []string{python, "peer.py", "sqlite"}},
		{peer{name: "tantivy", is: inAgent + "one commit before the searches; finds memories by words",
			does: []what{keep, search}}, []string{python, "peer.py", "tantivy"}},
		{peer{name: "mem0 + Qdrant, local", is: inAgent + "compares with all vectors, of an embedding that hashes words",
			does: []what{keep, search}}, []string{python, "peer.py", "mem0"}},
	} {
		if p.system, err = startPeer(o, p.argv); err != nil {
			return systems, stop, fmt.Errorf("%s: %w", p.name, err)
		}
		systems = append(systems, p.peer)
	}
	return systems, stop, nil
}

// script is a peer in a separate process that answers lines.
type script struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	err bytes.Buffer
}

func startPeer(o options, argv []string) (*script, error) {
	folder, err := o.folder(argv[len(argv)-1])
	if err != nil {
		return nil, err
	}
	s := &script{cmd: exec.Command(argv[0], append(argv[1:], folder)...)}
	s.cmd.Dir, s.cmd.Stderr = o.peers, &s.err
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewScanner(out)
	s.out.Buffer(nil, 64<<20)
	return s, s.cmd.Start()
}

// answer is a script's answer to one call.
type answer struct {
	US    float64 `json:"us"`
	CPU   float64 `json:"cpu"`
	Found int     `json:"found"`

	Messages []json.RawMessage `json:"messages"` // of a window, from windows.py and windows.mjs
}

// call sends a call, and checks that a search or a window gives something.
func (s *script) call(c command) (a answer, err error) {
	if a, err = s.exchange(c); err == nil && (c.Do == window || c.Do == search) && a.Found == 0 {
		err = fmt.Errorf("%s of %q gives nothing", c.Do, c.Session+c.Text)
	}
	return a, err
}

// exchange sends a call and reads its answer.
func (s *script) exchange(c command) (a answer, err error) {
	if err := json.NewEncoder(s.in).Encode(c); err != nil {
		return a, fmt.Errorf("%w: %s", err, s.err.String())
	}
	if !s.out.Scan() {
		return a, fmt.Errorf("it ended: %w: %s", errors.Join(s.out.Err(), s.cmd.Wait()), s.err.String())
	}
	return a, json.Unmarshal(s.out.Bytes(), &a)
}

func (s *script) do(c command) (float64, error) {
	a, err := s.call(c)
	return a.US, err
}

func (s *script) run(all []command) (out costs, err error) {
	before, err := threadTime(s.cmd.Process.Pid)
	if err != nil {
		return out, err
	}
	out.outside = new(costs)
	for _, c := range all {
		began := time.Now()
		a, err := s.call(c)
		if err != nil {
			return out, err
		}
		out.walls, out.cpu = append(out.walls, a.US), out.cpu+a.CPU
		out.outside.walls = append(out.outside.walls, float64(time.Since(began).Nanoseconds())/1000)
	}
	after, err := threadTime(s.cmd.Process.Pid)
	out.outside.cpu = after - before
	return out, err
}

func (s *script) settle() error { return nil }

func (s *script) stop() {
	s.in.Close()
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// mneme is the built program, used over HTTP.
type mneme struct {
	cmd    *exec.Cmd
	folder string // its data
	api    string
	key    string // the key of the tenant that do uses
	adm    string // the first tenant's admin key
}

const rootKey = "root-key-of-the-benchmarks-0123456789"

func startMneme(o options) (*mneme, error) {
	folder, err := o.folder("mneme")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()
	serve := exec.Command(o.mneme, "serve", "--data", folder, "--listen", address)
	m := &mneme{api: "http://" + address + "/api/v1", cmd: serve, folder: folder}
	m.cmd.Env = append(os.Environ(), "MNEME_ROOT_KEY="+rootKey)
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	for range 600 {
		if r, err := http.Get("http://" + address + "/readyz"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				key, err := os.ReadFile(filepath.Join(folder, "admin.key"))
				m.adm = strings.TrimSpace(string(key))
				m.key = m.adm
				return m, err
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	m.stop()
	return nil, errors.New("not ready after 30 seconds: Mneme")
}

func (m *mneme) stop() {
	m.cmd.Process.Kill()
	m.cmd.Wait()
}

// client keeps a connection for each writer.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// post sends a body with a key, and returns the response and the wall time until it was read, in µs.
func (m *mneme) post(key, path, media string, body []byte, want int) (b []byte, us float64, err error) {
	req, err := http.NewRequest(http.MethodPost, m.api+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", media)
	began := time.Now()
	r, err := client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer r.Body.Close()
	b, err = io.ReadAll(r.Body)
	us = float64(time.Since(began).Nanoseconds()) / 1000
	if err == nil && r.StatusCode != want {
		err = fmt.Errorf("%s: %d %s", path, r.StatusCode, b)
	}
	return b, us, err
}

func (m *mneme) do(c command) (float64, error) {
	type object map[string]any
	path, want, body := "", http.StatusOK, object{}
	switch c.Do {
	case appendTurn:
		path, want, body = "/turns", http.StatusCreated, object{"session_id": c.Session, "messages": c.Messages}
	case window:
		path = "/context"
		body = object{"session_id": c.Session, "budget": object{"max_tokens": c.Tokens, "max_messages": c.Limit}}
	case keep:
		path, want, body = "/memories", http.StatusCreated, object{"content": c.Text, "category": "core"}
	case search:
		path, body = "/memories/recall", object{"query": c.Text, "limit": c.Limit}
	}
	b, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	_, us, err := m.post(m.key, "/projects/default"+path, "application/json", b, want)
	return us, err
}

func (m *mneme) run(all []command) (out costs, err error) {
	before, err := m.cpu()
	if err != nil {
		return out, err
	}
	for _, c := range all {
		us, err := m.do(c)
		if err != nil {
			return out, err
		}
		out.walls = append(out.walls, us)
	}
	after, err := m.cpu()
	out.cpu = after - before
	return out, err
}

// cpu returns the CPU time of the server's threads, in µs.
func (m *mneme) cpu() (us float64, err error) { return threadTime(m.cmd.Process.Pid) }

// threadTime returns the CPU time of a process's threads, in µs, as the scheduler counts it.
func threadTime(pid int) (us float64, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		first, _, _ := strings.Cut(string(b), " ")
		ns, err := strconv.ParseFloat(first, 64)
		if err != nil {
			return 0, err
		}
		us += ns / 1000
	}
	return us, nil
}

// settle waits until the server has no more work.
func (m *mneme) settle() error {
	for range 600 {
		before, err := m.cpu()
		if err != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond)
		after, err := m.cpu()
		if err != nil {
			return err
		}
		if after-before < 10_000 {
			return nil
		}
	}
	return errors.New("the server is still at work after five minutes")
}
