package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine bounds a message on stdin, in bytes. The largest memory fits, even with every byte escaped.
const maxLine = 8 << 20

// lastAnswers is how long Run waits for calls in flight when stdin ends.
const lastAnswers = 5 * time.Second

// Run serves one client that writes to in and reads from out, a message a line, until in or ctx ends. A line that is no
// message is answered with an error, and Run goes on with the next line.
func (s *Server) Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser, call Call) error {
	messages, sieved := io.Pipe()
	answers := &answers{w: out, changed: make(chan struct{}, 1)}
	go func() {
		err := sieve(in, sieved, answers)
		answers.settle(ctx) // the SDK answers nothing more once its input has ended
		sieved.CloseWithError(err)
	}()
	err := s.sdk.Run(with(ctx, call), &sdk.IOTransport{Reader: input{messages, in}, Writer: answers})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// answers writes to the client, each line whole, and counts the calls that have no answer yet.
type answers struct {
	mu      sync.Mutex
	w       io.WriteCloser
	due     int
	changed chan struct{} // receives a value when due may have changed
}

// sieve passes on the lines that are messages and answers the others itself, because the SDK would end the session.
func sieve(in io.Reader, messages io.Writer, out *answers) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, fault, err := readLine(lines)
		if fault == nil && len(line) > 0 {
			fault = out.expect(line)
		}
		switch {
		case fault != nil:
			if err := out.fault(fault); err != nil {
				return err
			}
		case len(line) > 0:
			if _, err := messages.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		if err != nil {
			return err // io.EOF is the usual end
		}
	}
}

// readLine reads a line, which the caller may keep. A line of more than maxLine bytes is skipped and gives a fault.
func readLine(lines *bufio.Reader) (line []byte, fault *jsonrpc.Error, err error) {
	for {
		part, err := lines.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			line, fault = nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
				Message: fmt.Sprintf("a message may have at most %d bytes", maxLine)}
		}
		if fault == nil {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), fault, err
		}
	}
}

// expect says why a line is no message, or nil. It counts a call as due.
func (a *answers) expect(line []byte) *jsonrpc.Error {
	if !json.Valid(line) {
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is not JSON, or is nested too deeply"}
	}
	if line[0] == '[' {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "send each message on a line of its own, in no array"}
	}
	message, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
	}
	if r, ok := message.(*jsonrpc.Request); ok && r.IsCall() {
		a.mu.Lock()
		a.due++
		a.mu.Unlock()
	}
	return nil
}

// fault answers a line whose id could not be read.
func (a *answers) fault(fault *jsonrpc.Error) error {
	line, err := json.Marshal(struct {
		JSONRPC string         `json:"jsonrpc"`
		ID      *int           `json:"id"`
		Error   *jsonrpc.Error `json:"error"`
	}{"2.0", nil, fault})
	if err != nil {
		return fmt.Errorf("encoding an error: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err = a.w.Write(append(line, '\n'))
	return err
}

// settle waits until no answer is due, at most for lastAnswers.
func (a *answers) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastAnswers)
	defer cancel()
	for {
		a.mu.Lock()
		due := a.due
		a.mu.Unlock()
		if due == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-a.changed:
		}
	}
}

// Write writes one message of the SDK, which is one line.
func (a *answers) Write(line []byte) (int, error) {
	message, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := a.w.Write(line)
	if _, ok := message.(*jsonrpc.Response); ok {
		a.due--
		select {
		case a.changed <- struct{}{}:
		default:
		}
	}
	return n, err
}

// Close closes the writer below.
func (a *answers) Close() error { return a.w.Close() }

// input reads messages from a pipe; closing it closes the pipe's source, too.
type input struct {
	*io.PipeReader
	source io.Closer
}

func (i input) Close() error { return errors.Join(i.PipeReader.Close(), i.source.Close()) }
