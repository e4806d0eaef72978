package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/replies"
)

// Sink is the client's end of a stream.
type Sink interface {
	io.Writer
	Flush() error
}

// Relay passes a provider's stream on, byte for byte and event by event, and folds a copy of it.
type Relay struct {
	Format chat.Format
	// Commit is called with the whole answer before the event that ends it is passed on, so that a client that goes on
	// at once finds what it was told. The event waits for it no longer than CommitTime. It may go on behind the end of
	// Run, so ctx must not end with the request.
	Commit func(ctx context.Context, r *replies.Reply)
	// HideUsage takes the chunk with the usage out of a chat stream, because the client did not ask for it.
	HideUsage bool
	Stall     time.Duration // at most between two bytes of the provider
	Ping      time.Duration // between two signs of life, where the provider sends none
	// Rounds makes one stream of several; nil: there is one, and the client gets its bytes.
	Rounds *Rounds
}

// Rounds are what follows a whole answer before the client's stream ends.
type Rounds struct {
	Weave *replies.Weave
	// Next takes a round's whole answer. It gives the stream of the next round, which Run closes, or nil and the client's
	// answer where no round follows.
	Next func(ctx context.Context, r *replies.Reply) (next io.ReadCloser, whole *replies.Reply, err error)
}

// CommitTime is how long the end of a stream waits for its answer to be stored.
const CommitTime = 2 * time.Second

// ErrClientGone says that the client reads no more.
var ErrClientGone = errors.New("the client has gone")

// Run relays until the stream's last event, or until one side breaks off. The answer is nil with the error that says
// why there is none; where the provider broke off, the client was told.
func (r *Relay) Run(ctx context.Context, from io.Reader, to Sink) (*replies.Folder, error) {
	folder, err := r.round(ctx, from, to)
	for err == nil && r.Rounds != nil && folder.State() == replies.Ended {
		reply, err := folder.Reply()
		if err != nil { // It is the client's answer all the same, but no tool of it is known to have been called.
			rest, ok := r.Rounds.Weave.Unread()
			if !ok {
				return folder, r.tell(to, err)
			}
			return folder, pass(to, rest)
		}
		next, err := r.follow(ctx, reply, to)
		if next == nil || err != nil {
			return replies.New(r.Format), err // Next has counted what the provider reported.
		}
		r.Rounds.Weave.Round()
		folder, err = r.round(ctx, next, to)
		_ = next.Close()
		if err != nil {
			return folder, err
		}
	}
	return folder, err
}

// follow waits for the round behind a whole answer, with signs of life, or ends the client's stream.
func (r *Relay) follow(ctx context.Context, reply *replies.Reply, to Sink) (io.ReadCloser, error) {
	type following struct {
		next  io.ReadCloser
		whole *replies.Reply
		err   error
	}
	done := make(chan following, 1)
	go func() {
		var f following
		f.next, f.whole, f.err = r.Rounds.Next(ctx, reply)
		done <- f
	}()
	ping := time.NewTicker(r.Ping)
	defer ping.Stop()
	var gone error
	for {
		select {
		case <-ping.C:
			if gone == nil {
				gone = pass(to, keepAlive(r.Format))
			}
		case f := <-done:
			switch {
			case f.err != nil && ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case f.err != nil:
				return nil, r.tell(to, f.err)
			case gone != nil && f.next != nil:
				return nil, errors.Join(gone, f.next.Close())
			case f.next == nil:
				if r.Commit != nil {
					r.commit(ctx, f.whole)
				}
				return nil, pass(to, r.Rounds.Weave.End())
			}
			return f.next, nil
		}
	}
}

// round relays one stream of the provider's.
func (r *Relay) round(ctx context.Context, from io.Reader, to Sink) (*replies.Folder, error) {
	folder, split := replies.New(r.Format), new(replies.Splitter)
	chunks, stop := read(from)
	defer stop()
	stalled, ping := time.NewTimer(r.Stall), time.NewTicker(r.Ping)
	defer stalled.Stop()
	defer ping.Stop()
	state, quiet := replies.Going, true
	for {
		select {
		case <-ctx.Done():
			return folder, context.Cause(ctx)
		case <-stalled.C:
			if state != replies.Going { // The answer is whole; only the connection stays open.
				return folder, r.end(to, split, state)
			}
			return folder, r.tell(to, errStalled)
		case <-ping.C:
			if quiet && state == replies.Going && len(split.Rest()) == 0 {
				if err := pass(to, keepAlive(r.Format)); err != nil {
					return folder, err
				}
			}
			quiet = true
		case chunk, open := <-chunks:
			if !open {
				return folder, r.end(to, split, state)
			}
			stalled.Reset(r.Stall)
			quiet = false
			events, err := split.Feed(chunk)
			for _, e := range events {
				if state, err = r.event(ctx, folder, e, to); err != nil {
					return folder, err
				}
				if r.Rounds != nil && state == replies.Ended {
					if to.Flush() != nil {
						return folder, ErrClientGone
					}
					return folder, nil
				}
			}
			if err != nil {
				return folder, r.tell(to, err)
			}
			if err := to.Flush(); err != nil {
				return folder, ErrClientGone
			}
		}
	}
}

// event folds one event and passes it on.
func (r *Relay) event(ctx context.Context, folder *replies.Folder, e replies.Event, to io.Writer) (replies.State,
	error) {
	before := folder.State()
	state := folder.Add(e)
	if r.Rounds != nil {
		if _, err := to.Write(r.Rounds.Weave.Add(e)); err != nil {
			return state, ErrClientGone
		}
		return state, nil
	}
	if state == replies.Ended && before == replies.Going && r.Commit != nil {
		if whole, err := folder.Reply(); err == nil {
			r.commit(ctx, whole)
		}
	}
	if r.HideUsage && r.Format == chat.OpenAIChat && usageAlone(e.Data) {
		return state, nil
	}
	if _, err := to.Write(e.Raw); err != nil {
		return state, ErrClientGone
	}
	return state, nil
}

// commit waits for the answer to be stored, but not for ever.
func (r *Relay) commit(ctx context.Context, whole *replies.Reply) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Commit(ctx, whole)
	}()
	late := time.NewTimer(CommitTime)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// end closes a stream whose provider sends no more.
func (r *Relay) end(to Sink, split *replies.Splitter, state replies.State) error {
	switch {
	case state == replies.Going:
		return r.tell(to, errDied)
	case len(split.Rest()) > 0:
		return pass(to, split.Rest())
	}
	return nil
}

// tell ends a broken stream for the client, and gives back why.
func (r *Relay) tell(to Sink, why error) error {
	if err := pass(to, brokenStream(r.Format, why)); err != nil {
		return err
	}
	return why
}

func pass(to Sink, b []byte) error {
	if _, err := to.Write(b); err != nil {
		return ErrClientGone
	}
	if to.Flush() != nil {
		return ErrClientGone
	}
	return nil
}

// usageAlone tells whether a chunk of a chat stream holds the usage and no choice.
func usageAlone(data []byte) bool {
	if !bytes.Contains(data, []byte(`"usage"`)) {
		return false
	}
	var chunk struct {
		Choices []json.RawMessage `json:"choices"`
		Usage   json.RawMessage   `json:"usage"`
	}
	return json.Unmarshal(data, &chunk) == nil && chunk.Choices != nil && len(chunk.Choices) == 0 &&
		len(chunk.Usage) > 0 && string(chunk.Usage) != "null"
}

// chunkSize is how much of a provider's stream is read at once.
const chunkSize = 2 << 10

// read reads in a goroutine of its own, so that time passes while nothing comes. The chunks end with the stream; each
// is valid until the next is taken. The goroutine ends once stop was called and the reader is closed, which the caller
// does.
func read(from io.Reader) (chunks <-chan []byte, stop func()) {
	out, stopped := make(chan []byte), make(chan struct{})
	go func() {
		defer close(out)
		var buffers [2][chunkSize]byte // one is filled while the other is passed on
		for i := 0; ; i ^= 1 {
			n, err := from.Read(buffers[i][:])
			if n > 0 {
				select {
				case out <- buffers[i][:n]:
				case <-stopped:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return out, func() { close(stopped) }
}
