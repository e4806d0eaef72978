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

// maxLine is the maximum size of a message on stdin, in bytes. The largest memory fits, even with every byte escaped.
const maxLine = 8 << 20

// lastAnswers is the time that Run waits for running calls after stdin ends.
const lastAnswers = 5 * time.Second

// Run serves one client that writes to in and reads from out, one message per line, until in or ctx ends. It answers
// a line that is not a message with an error and continues with the next line.
func (s *Server) Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser, call Call) error {
	messages, sieved := io.Pipe()
	answers := &answers{w: out, changed: make(chan struct{}, 1)}
	go func() {
		err := sieve(in, sieved, answers)
		answers.settle(ctx) // the SDK sends nothing after its input has ended
		sieved.CloseWithError(err)
	}()
	err := s.sdk.Run(with(ctx, call), &sdk.IOTransport{Reader: input{messages, in}, Writer: answers})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// answers writes whole lines to the client and counts the calls that are not answered yet.
type answers struct {
	mu      sync.Mutex
	w       io.WriteCloser
	due     int
	changed chan struct{} // receives a value when due may have changed
}

// sieve passes on lines that are messages. It answers the others itself, because the SDK would end the session.
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

// readLine reads a line, which the caller may keep. It skips a line of more than maxLine bytes and returns a fault.
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

// expect returns the reason why a line is not a message, or nil. It counts a call as unanswered.
func (a *answers) expect(line []byte) *jsonrpc.Error {
	if !json.Valid(line) {
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is not JSON, or is nested too deeply"}
	}
	if line[0] == '[' {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "send each message on its own line, not in an array"}
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

// fault sends the error response to a line whose id could not be read.
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

// settle waits until all calls are answered, for at most lastAnswers.
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

// Close closes the underlying writer.
func (a *answers) Close() error { return a.w.Close() }

// input reads messages from a pipe. Closing it also closes the pipe's source.
type input struct {
	*io.PipeReader
	source io.Closer
}

func (i input) Close() error { return errors.Join(i.PipeReader.Close(), i.source.Close()) }
