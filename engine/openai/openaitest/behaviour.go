package openaitest

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"time"
)

// Behaviour responds to one request.
type Behaviour func(x *Exchange)

// Exchange is one request and the means to respond to it.
type Exchange struct {
	Request
	w         http.ResponseWriter
	r         *http.Request
	closing   <-chan struct{}
	answering func(summary string) // called before the response is written
}

// wait returns true once ch is ready, and false if the client disconnected or the server closed first.
func wait[T any](x *Exchange, ch <-chan T) bool {
	select {
	case <-ch:
		return true
	case <-x.r.Context().Done():
	case <-x.closing:
	}
	return false
}

// completion returns a response in OpenAI's format.
func completion(x *Exchange, text, finish string) []byte {
	body, err := json.Marshal(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": x.Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": finish,
			"message": map[string]any{"role": "assistant", "content": text}}},
		"usage": map[string]any{"prompt_tokens": len(x.Body) / 4, "completion_tokens": len(text) / 4,
			"total_tokens": len(x.Body)/4 + len(text)/4},
	})
	if err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	return body
}

func (x *Exchange) write(status int, contentType string, body []byte) bool {
	x.w.Header().Set("Content-Type", contentType)
	x.w.WriteHeader(status)
	_, err := x.w.Write(body)
	return err == nil
}

// Say responds with a summary of the given text.
func Say(text string) Behaviour {
	return func(x *Exchange) {
		x.answering(text)
		x.write(http.StatusOK, "application/json", completion(x, text, "stop"))
	}
}

// Digest responds with a summary that lists the marks of everything that it covers: see Marks.
func Digest(x *Exchange) {
	seen := []string{x.Previous}
	for _, m := range x.Messages {
		seen = append(seen, m.Text)
	}
	Say(digest(Marks(strings.Join(seen, "\n"))))(x)
}

// Extract responds with a summary of at most limit bytes, and uses all of them if there is enough text. Up to half of
// it is the beginning of the previous summary, and the rest the beginnings of the messages, in equal parts.
func Extract(limit int) Behaviour {
	return func(x *Exchange) { Say(extract(x.Previous, x.Messages, limit))(x) }
}

// After returns a behaviour that waits and then runs another one.
func After(d time.Duration, then Behaviour) Behaviour {
	return func(x *Exchange) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		if wait(x, timer.C) {
			then(x)
		}
	}
}

// Hold waits until release is closed before it runs then. If release is nil, it waits until the client disconnects.
func Hold(release <-chan struct{}, then Behaviour) Behaviour {
	return func(x *Exchange) {
		if wait(x, release) {
			then(x)
		}
	}
}

// Finish responds with a summary that has another finish reason, such as "length".
func Finish(reason, text string) Behaviour {
	return func(x *Exchange) { x.write(http.StatusOK, "application/json", completion(x, text, reason)) }
}

// Status responds with an error in OpenAI's format. headers are name, value pairs.
func Status(status int, code string, headers ...string) Behaviour {
	return func(x *Exchange) {
		for i := 0; i+1 < len(headers); i += 2 {
			x.w.Header().Set(headers[i], headers[i+1])
		}
		body, err := json.Marshal(map[string]any{"error": map[string]any{"code": code, "type": "test",
			"message": "refused for " + x.Authorization + " at " + x.r.Host}}) // some providers do repeat the key
		if err != nil {
			panic(err)
		}
		x.write(status, "application/json", body)
	}
}

// Raw responds with the given bytes.
func Raw(status int, contentType, body string) Behaviour {
	return func(x *Exchange) { x.write(status, contentType, []byte(body)) }
}

// Redirect redirects the client.
func Redirect(status int, to string) Behaviour {
	return func(x *Exchange) { http.Redirect(x.w, x.r, to, status) }
}

// Cut closes the connection in the middle of a valid response.
func Cut(x *Exchange) {
	body := completion(x, digest(nil), "stop")
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(http.StatusOK)
	if _, err := x.w.Write(body[:len(body)/2]); err != nil {
		return
	}
	if http.NewResponseController(x.w).Flush() == nil {
		hangUp(x)
	}
}

// Drop closes the connection without a response.
func Drop(x *Exchange) { hangUp(x) }

func hangUp(x *Exchange) {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // send a reset, as when a process dies
	}
	_ = conn.Close()
}

// Endless responds with a summary that does not end. It stops when the client disconnects.
func Endless(x *Exchange) {
	if !x.write(http.StatusOK, "application/json", []byte(`{"choices":[{"message":{"role":"assistant","content":"`)) {
		return
	}
	chunk := []byte(strings.Repeat("and so on ", 10_000))
	for {
		if _, err := x.w.Write(chunk); err != nil {
			return
		}
	}
}
