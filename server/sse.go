package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// retryAfter is the time, in milliseconds, that readers should wait before they reconnect.
const retryAfter = "1000"

// sse streams a feed as Server-Sent Events named event, or with the names that the events themselves have. It ends
// when the reader leaves, the key ends, the followed object is deleted or the server stops. After each notification
// it reads from the store what the reader has not received yet, so the server keeps no queue per reader.
func (x *exchange) sse(event string, from records.Feed) streamed {
	s, r, bears, tenant := x.s, x.route, x.bears, x.caller.Tenant
	return streamed{contentType: "text/event-stream", close: from.Close, run: func(out *stream) error {
		p := pusher{s: s, out: out, event: event, feed: from, tenant: tenant,
			still: func() bool { return s.still(bears, tenant, r) }}
		return p.run()
	}}
}

// pusher is one event stream.
type pusher struct {
	s      *Server
	out    *stream
	event  string
	feed   records.Feed
	tenant string
	still  func() bool
}

// run returns nil if the reader can reconnect and continue after the last event that it received.
func (p *pusher) run() error {
	poll, heartbeat := time.NewTicker(p.s.limits.poll), time.NewTicker(p.s.limits.heartbeat)
	defer poll.Stop()
	defer heartbeat.Stop()
	defer context.AfterFunc(p.s.streams, p.out.hurry)()
	if !p.say("retry: " + retryAfter + "\n\n") {
		return nil
	}
	for {
		news := p.feed.News()
		n, err := p.push()
		if err != nil || n < 0 {
			return err
		}
		if n > 0 { // there may be more events: do not wait for a notification, but check the key as often as while waiting
			select {
			case <-poll.C:
				if !p.still() {
					return nil
				}
			default:
			}
			continue
		}
		select {
		case <-p.s.streams.Done():
			return nil
		case <-news:
		case <-poll.C:
			if !p.still() {
				return nil
			}
		case <-heartbeat.C:
			if !p.say(": still here\n\n") {
				return nil
			}
		}
	}
}

// push writes the feed's new events and returns their number, or -1 if the stream must end. It works in its tenant's
// turn, except while it waits for the reader.
func (p *pusher) push() (int, error) {
	place, err := p.s.feeds.Hold(p.s.streams, p.tenant)
	if err != nil {
		return -1, nil
	}
	defer place.Leave()
	ctx, cancel := context.WithTimeout(place.With(p.s.streams), p.s.limits.request)
	defer cancel()
	events, err := p.feed.Next(ctx)
	gone, ok := errors.AsType[*fault.Error](err)
	if ok && gone.Kind == fault.NotFound || errors.Is(err, context.Canceled) {
		return -1, nil
	}
	if err != nil || len(events) == 0 {
		return 0, err
	}
	for _, e := range events {
		var event bytes.Buffer
		kind := cmp.Or(e.Kind, p.event)
		for _, part := range []string{"id: ", e.ID, "\nevent: ", kind, "\ndata: "} {
			event.WriteString(part)
		}
		enc := json.NewEncoder(&event) // Encode also ends the data line
		enc.SetEscapeHTML(false)
		if err := enc.Encode(map[string]any{kind: e.Data}); err != nil {
			return 0, err
		}
		event.WriteByte('\n')
		if _, err := (patient{p.out, place}).Write(event.Bytes()); err != nil {
			return -1, nil
		}
	}
	defer place.Pause()()
	if p.out.Flush() != nil {
		return -1, nil // the reader has gone or is too slow
	}
	return len(events), nil
}

// say writes a comment or a field that is not an event, and reports whether the reader is still there.
func (p *pusher) say(text string) bool {
	_, _ = io.WriteString(p.out, text)
	return p.out.Flush() == nil
}
