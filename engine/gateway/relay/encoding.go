package relay

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is the largest window of zstd, in bytes. RFC 9659 allows 8 MB for content
// encodings.
const maxWindow = 8 << 20

// ErrEncoding says that a content encoding is not gzip, br or zstd, or that there are several.
var ErrEncoding = errors.New("the content encoding must be gzip, br, zstd or identity, and only one")

// decoders make readers of decoded bytes. A decoder has at most 8 MiB of state for zstd, 16 MiB for br and 32 KiB for
// gzip, and needs no closing.
var decoders = map[string]func(io.Reader) (io.Reader, error){
	"identity": func(from io.Reader) (io.Reader, error) { return from, nil },
	"gzip":     func(from io.Reader) (io.Reader, error) { return &lazyGzip{from: from}, nil },
	"br":       func(from io.Reader) (io.Reader, error) { return brotli.NewReader(from), nil },
	"zstd": func(from io.Reader) (io.Reader, error) {
		// With a concurrency of 1 the decoder starts no goroutines, and without buffers it never decodes ahead of its reader.
		return zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecodeBuffersBelow(0))
	},
}

func decoder(encoding string) func(io.Reader) (io.Reader, error) {
	return decoders[cmp.Or(strings.ToLower(strings.TrimSpace(encoding)), "identity")]
}

// Decodes reports whether Decode knows a content encoding.
func Decodes(encoding string) bool { return decoder(encoding) != nil }

// Decode returns a reader of the decoded bytes of from. Its memory does not depend on how many they are; the caller bounds
// that.
func Decode(encoding string, from io.Reader) (io.Reader, error) {
	if make := decoder(encoding); make != nil {
		return make(from)
	}
	return nil, ErrEncoding
}

// lazyGzip reads the header of gzip with the first read. A stream's header may arrive long after that of its answer.
type lazyGzip struct {
	from io.Reader
	*gzip.Reader
}

func (g *lazyGzip) Read(b []byte) (n int, err error) {
	if g.Reader == nil {
		if g.Reader, err = gzip.NewReader(bufio.NewReaderSize(g.from, chunkSize)); err != nil {
			return 0, err
		}
	}
	return g.Reader.Read(b)
}

// decodeAnswer replaces the body of an encoded answer by a decoded one.
func decodeAnswer(resp *http.Response) error {
	encoding := resp.Header.Get("Content-Encoding")
	if encoding == "" || strings.EqualFold(encoding, "identity") || resp.Request != nil && resp.Request.Method == http.MethodHead {
		return nil
	}
	decoded, err := Decode(encoding, resp.Body)
	if errors.Is(err, ErrEncoding) {
		return nil // the client gets it unchanged, and nothing of it is stored
	}
	if err != nil {
		return err
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	resp.Body = &decodedBody{decoded, resp.Body}
	return nil
}

// decodedBody closes the connection. The decoder has nothing to release, and may be reading.
type decodedBody struct {
	io.Reader
	io.Closer
}
