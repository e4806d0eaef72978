package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// session holds all that is played.
const session = "played"

// server is the real program on a data folder of its own.
type server struct {
	url, key string
	cmd      *exec.Cmd
}

// start runs the program on a free port and waits until it says where it listens.
func start(binary, data string) (*server, error) {
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--data", data)
	for _, entry := range os.Environ() { // what would configure the server stays out
		if !strings.HasPrefix(entry, "MNEME_") && !strings.HasPrefix(entry, "OPENAI_") && !strings.HasPrefix(entry,
			"AGENTS_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd}
	lines := bufio.NewReader(said)
	for s.url == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			s.stop()
			return nil, errors.New("the server ended before it listened")
		}
		if _, url, ok := strings.Cut(line, "listening on "); ok {
			s.url = strings.TrimSpace(url)
		}
	}
	go io.Copy(io.Discard, lines) // else its log would fill the pipe
	key, err := os.ReadFile(filepath.Join(data, "admin.key"))
	if err != nil {
		s.stop()
		return nil, err
	}
	s.key = strings.TrimSpace(string(key))
	return s, nil
}

func (s *server) stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.cmd.Wait()
}

// turn stores a turn.
func (s *server) turn(messages []json.RawMessage) error {
	_, err := s.post("/turns", map[string]any{"session_id": session, "format": "openai.chat", "messages": messages},
		nil)
	return err
}
