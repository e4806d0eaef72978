package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// sseEvent is one Server-Sent Event.
type sseEvent struct{ id, event, data string }

// listen reads a stream until it ends, the context ends, or saw returns true. It is strict: fields must be in the order
// id, event, data. The status is 0 if there was no answer.
func (c client) listen(ctx context.Context, path, lastID string, saw func(sseEvent) bool) (status int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", c.url+path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind != "text/event-stream" {
		return res.StatusCode, fmt.Errorf("%d %s", res.StatusCode, kind)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 4<<20)
	var e sseEvent
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case lines.Text() == "" && e.data != "":
			if !saw(e) {
				return 200, nil
			}
			e = sseEvent{}
		case lines.Text() == "", field == "", field == "retry":
		case field == "id" && e == sseEvent{}:
			e.id = value
		case field == "event" && e.id != "" && e.data == "":
			e.event = value
		case field == "data" && e.event != "" && e.data == "":
			e.data = value
		default:
			return 200, fmt.Errorf("unexpected line %q after %+v", lines.Text(), e)
		}
	}
	return 200, lines.Err()
}

// boardEntry is an entry as clients see it.
type boardEntry struct {
	ID        string   `json:"id"`
	BoardID   string   `json:"board_id"`
	Content   string   `json:"content"`
	Tags      []string `json:"tags"`
	Source    *string  `json:"source"`
	IsChat    bool     `json:"is_chat"`
	CreatedAt string   `json:"created_at"`
}

type boardPage struct {
	Items                []boardEntry `json:"items"`
	Total, Limit, Offset int
}

// memory decodes the entry of an event.
func (e sseEvent) memory(t testing.TB) boardEntry {
	t.Helper()
	var data struct{ Memory boardEntry }
	if err := json.Unmarshal([]byte(e.data), &data); err != nil || e.event != "memory" || data.Memory.ID != e.id {
		t.Fatalf("event %+v: %v", e, err)
	}
	return data.Memory
}
