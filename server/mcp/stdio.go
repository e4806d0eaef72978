package mcp

import (
	"context"
	"errors"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Run serves one client that writes to in and reads from out, a message a line, until in ends or ctx does.
func (s *Server) Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser, call Call) error {
	err := s.sdk.Run(with(ctx, call), &sdk.IOTransport{Reader: in, Writer: out})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
