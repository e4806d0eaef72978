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

	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// sessionOf returns the session for everything that is played in a format.
func sessionOf(format providers.API) string { return "played-" + string(format) }

// server is the real program with a separate data folder.
type server struct {
	url, key string
	cmd      *exec.Cmd
}

// start runs the program on a free port and waits until it prints its address.
func start(binary, data string) (*server, error) {
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--data", data)
	for _, entry := range os.Environ() { // remove variables that would configure the server
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
	go io.Copy(io.Discard, lines) // otherwise its log would fill the pipe
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

// turn stores a turn in the session of a format.
func (s *server) turn(format providers.API, chat []json.RawMessage) error {
	messages, err := providers.FromChat(format, chat)
	if err != nil {
		return err
	}
	_, err = s.post("/turns", map[string]any{"session_id": sessionOf(format), "format": format, "messages": messages},
		nil)
	return err
}
