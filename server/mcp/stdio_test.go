package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
)

// Any line is answered, and so are the lines after it.
func TestOddLinesEndNothing(t *testing.T) {
	const parse, request = -32700, -32600
	for name, test := range map[string]struct {
		line string
		code int
	}{
		"words":      {"hello", parse},
		"half":       {`{"jsonrpc":`, parse},
		"too deep":   {strings.Repeat("[", 1<<20), parse},
		"null":       {"null", request},
		"a text":     {`"x"`, request},
		"no version": {`{"id":1,"method":"ping"}`, request},
		"odd id":     {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, request},
		"odd method": {`{"jsonrpc":"2.0","id":1,"method":5}`, request},
		"no method":  {`{"jsonrpc":"2.0"}`, request},
		"several":    {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, request},
		"too long": {`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", maxLine) +
			`"}}`, request},
		"two at once": {`{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`, parse},
	} {
		s, _ := one()
		in, feed := io.Pipe()
		answers, out := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			err := s.Run(t.Context(), in, out, func(context.Context, tools.Call) (tools.Result, error) {
				return tools.Result{Content: "told"}, nil
			})
			_ = out.Close()
			ended <- err
		}()
		var got []string
		heard := json.NewDecoder(answers)
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":8,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
				`"clientInfo":{"name":"x","version":"1"}}}`,
			"\r", test.line, callTool,
		} {
			if _, err := io.WriteString(feed, line+"\n"); err != nil {
				t.Fatal(name, err)
			}
			if line == "\r" {
				continue
			}
			var a struct {
				ID    *int
				Error struct{ Code int }
			}
			if err := heard.Decode(&a); err != nil {
				t.Fatal(name, err)
			}
			id := "null"
			if a.ID != nil {
				id = fmt.Sprint(*a.ID)
			}
			got = append(got, fmt.Sprint(id, " ", a.Error.Code))
		}
		if want := fmt.Sprintf("8 0, null %d, 1 0", test.code); strings.Join(got, ", ") != want {
			t.Errorf("%s: answers %q, want %s", name, got, want)
		}
		_ = feed.Close()
		if err := <-ended; err != nil {
			t.Errorf("%s: ended with %v", name, err)
		}
	}
}

// Lines arrive complete however they are split, including a last line without its end.
func TestSieveKeepsLines(t *testing.T) {
	var want strings.Builder
	for i := range 3 {
		fmt.Fprintf(&want, `{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"a":"%s"}}`+"\n", i,
			strings.Repeat("é", 40_000*i))
	}
	for name, in := range map[string]io.Reader{
		"whole":    strings.NewReader(strings.TrimSuffix(want.String(), "\n")),
		"by bytes": iotest.OneByteReader(strings.NewReader(want.String())),
		"crlf":     strings.NewReader(strings.ReplaceAll(want.String(), "\n", "\r\n")),
	} {
		var got strings.Builder
		out := &answers{}
		if err := sieve(in, &got, out); !errors.Is(err, io.EOF) || got.String() != want.String() || out.due != 3 {
			t.Errorf("%s: %v, %d bytes, want %d, %d answers are due", name, err, got.Len(), want.Len(), out.due)
		}
	}
}

// Calls sent before stdin ended are answered after it, as from a shell pipe.
func TestLastCallsAreAnswered(t *testing.T) {
	s, _ := one()
	in := strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n" + callTool)
	var out bytes.Buffer
	inEnded := make(chan struct{})
	err := s.Run(t.Context(), io.NopCloser(io.MultiReader(in, closing(inEnded))), discloser{&out},
		func(context.Context, tools.Call) (tools.Result, error) {
			<-inEnded
			return tools.Result{Content: "told late"}, nil
		})
	if got := out.String(); err != nil || strings.Count(got, "\n") != 2 || !strings.Contains(got, "told late") {
		t.Errorf("%v, %s", err, got)
	}
}

// closing is an empty reader that closes itself when it is read.
type closing chan struct{}

func (c closing) Read([]byte) (int, error) {
	close(c)
	return 0, io.EOF
}

type discloser struct{ io.Writer }

func (discloser) Close() error { return nil }
