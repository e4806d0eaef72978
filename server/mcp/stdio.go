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

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine bounds a message on stdin, in bytes. A memory of the greatest size fits, however it is escaped.
const maxLine = 8 << 20

// Run serves one client that writes to in and reads from out, a message a line, until in ends or ctx does. What is no
// message is answered with an error, and the next line is read.
func (s *Server) Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser, call Call) error {
	messages, sieved := io.Pipe()
	answers := &lockedWriter{w: out}
	go func() { sieved.CloseWithError(sieve(in, sieved, answers)) }()
	err := s.sdk.Run(with(ctx, call), &sdk.IOTransport{Reader: input{messages, in}, Writer: answers})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// sieve passes on the lines that are messages. The SDK ends a session for one that is not, so those end here.
func sieve(in io.Reader, messages, answers io.Writer) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, fault, err := readLine(lines)
		if fault == nil && len(line) > 0 {
			fault = messageFault(line)
		}
		switch {
		case fault != nil:
			if err := answerFault(answers, fault); err != nil {
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

// readLine reads a line, of which the fault may be that it is too long. The line is the caller's.
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

// messageFault says why a line is no message; nil where it is one.
func messageFault(line []byte) *jsonrpc.Error {
	if !json.Valid(line) {
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is not JSON, or is nested too deeply"}
	}
	if line[0] == '[' {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "send each message on a line of its own, in no array"}
	}
	if _, err := jsonrpc.DecodeMessage(line); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
	}
	return nil
}

// answerFault answers what has no id that could be read.
func answerFault(out io.Writer, fault *jsonrpc.Error) error {
	line, err := json.Marshal(struct {
		JSONRPC string         `json:"jsonrpc"`
		ID      *int           `json:"id"`
		Error   *jsonrpc.Error `json:"error"`
	}{"2.0", nil, fault})
	if err != nil {
		return fmt.Errorf("encoding an error: %w", err)
	}
	_, err = out.Write(append(line, '\n'))
	return err
}

// input reads messages; closing it also closes where they come from.
type input struct {
	*io.PipeReader
	source io.Closer
}

func (i input) Close() error { return errors.Join(i.PipeReader.Close(), i.source.Close()) }

// lockedWriter keeps what two write at once apart: each Write is a whole line.
type lockedWriter struct {
	mu sync.Mutex
	w  io.WriteCloser
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (l *lockedWriter) Close() error { return l.w.Close() }
