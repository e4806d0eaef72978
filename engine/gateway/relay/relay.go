package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
)

// Sink is the client's end of a stream.
type Sink interface {
	io.Writer
	Flush() error
}

// Relay forwards a provider's stream, byte for byte and event by event, and folds a copy of it.
type Relay struct {
	Format chat.Format
	// Commit is called with the complete answer before its last event is forwarded, so that a client that continues at once
	// finds the answer stored. The event waits for it no longer than Patience. Commit may outlast Run, so ctx must not end
	// with the request.
	Commit   func(ctx context.Context, r *wire.Reply)
	Patience time.Duration
	// HideUsage removes the chunk with the usage from a chat stream, because the client did not ask for it.
	HideUsage bool
	NeedsDone bool          // a chat stream is whole only with [DONE]
	Stall     time.Duration // the longest time without a byte from the provider
	Ping      time.Duration // the time between two keep-alives, if the provider sends none
	// Rounds joins several streams into one. If it is nil, there is one stream, and the client gets its bytes.
	Rounds *Rounds
}

// Rounds say what follows a complete answer before the client's stream ends.
type Rounds struct {
	Weave *wire.Weave
	// Next takes the complete answer of a round. It returns the stream of the next round, which Run closes, or nil and the
	// client's answer if no round follows.
	Next func(ctx context.Context, r *wire.Reply) (next io.ReadCloser, whole *wire.Reply, err error)
}

// ErrClientGone means that the client no longer reads.
var ErrClientGone = errors.New("the client has gone")

// Run relays until the stream's last event, or until one side breaks off. If ctx or a timeout ends it during a read, it
// closes from. The error says why there is no complete answer. If the provider broke off, the client has been told.
func (r *Relay) Run(ctx context.Context, from io.ReadCloser, to Sink) (*wire.Folder, error) {
	folder, err := r.round(ctx, from, to)
	for err == nil && r.Rounds != nil && folder.State() == wire.Ended {
		reply, err := folder.Reply()
		if err != nil { // It is still the client's answer, but none of its tools is known to have been called.
			rest, ok := r.Rounds.Weave.Unread()
			if !ok {
				return folder, r.tell(to, err)
			}
			return folder, pass(to, rest)
		}
		next, err := r.follow(ctx, reply, to)
		if next == nil || err != nil {
			return wire.New(r.Format), err // Next has counted the usage that the provider reported.
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

// follow waits for the round that follows a complete answer, sending keep-alives, or ends the client's stream.
func (r *Relay) follow(ctx context.Context, reply *wire.Reply, to Sink) (io.ReadCloser, error) {
	type following struct {
		next  io.ReadCloser
		whole *wire.Reply
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

// chunkSize is how much of a provider's stream is read at once, in bytes.
const chunkSize = 2 << 10

// flow is one stream of the provider on its way to the client. The relaying goroutine blocks in a read from the
// provider, so an idle stream needs one goroutine. Timers send keep-alives in the meantime, and end the read on a
// timeout by closing the stream.
type flow struct {
	*Relay
	to    Sink
	from  io.Closer
	split wire.Splitter
	read  atomic.Bool // data was read and not forwarded yet

	mu     sync.Mutex // held while something is written to the client
	folder *wire.Folder
	state  wire.State
	since  time.Time // when the wait for the provider began
	heard  bool      // the provider has sent something since the last keep-alive was due
	over   bool      // nothing may be forwarded any more
	why    error     // why from was closed here

	ping, stall *time.Timer
}

// round relays one stream of the provider.
func (r *Relay) round(ctx context.Context, from io.ReadCloser, to Sink) (*wire.Folder, error) {
	f := &flow{Relay: r, to: to, from: from, folder: wire.New(r.Format)}
	defer context.AfterFunc(ctx, func() { _ = from.Close() })()
	f.mu.Lock() // until the timer functions can see the timers
	f.since = time.Now()
	f.ping, f.stall = time.AfterFunc(r.Ping, f.live), time.AfterFunc(r.Stall, f.stalled)
	f.mu.Unlock()
	defer f.end()
	chunk := make([]byte, chunkSize)
	for {
		n, err := from.Read(chunk)
		f.read.Store(n > 0)
		if over, err := f.pass(ctx, chunk[:n], err); over {
			return f.folder, err
		}
	}
}

// end stops the timers.
func (f *flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.ping.Stop()
	f.stall.Stop()
}

// pass forwards what was read. ended is the error with which the stream ended, or nil. It reports whether the round is
// over, and with which error.
func (f *flow) pass(ctx context.Context, chunk []byte, ended error) (over bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return true, context.Cause(ctx)
	case errors.Is(f.why, errStalled) && f.state == wire.Going:
		return true, f.tell(f.to, errStalled)
	case f.why != nil && !errors.Is(f.why, errStalled):
		return true, f.why
	}
	if len(chunk) > 0 {
		f.heard = true
		if over, err := f.feed(ctx, chunk); over {
			return true, err
		}
		f.since = time.Now()
		f.stall.Reset(f.Stall)
		f.read.Store(false)
	}
	if errors.Is(ended, io.EOF) && f.state == wire.Going {
		if err := f.finish(ctx); err != nil {
			return true, err
		}
	}
	if ended != nil { // A complete answer has not broken off if only its connection stayed open.
		return true, f.Relay.end(f.to, &f.split, f.state)
	}
	return false, nil
}

// finish ends a stream that ended cleanly, but without its last event, if its answer is whole.
func (f *flow) finish(ctx context.Context) error {
	left := f.split.Rest()
	if len(left) > 0 { // Its last event may lack the empty line.
		left = bytes.Clone(left)
		events, _ := f.split.Feed([]byte("\n\n"))
		for _, e := range events {
			f.state = f.folder.Add(e)
		}
	}
	if !f.NeedsDone {
		f.state = f.folder.End()
	}
	if f.state == wire.Ended && f.Rounds == nil && f.Commit != nil {
		if whole, err := f.folder.Reply(); err == nil {
			f.commit(ctx, whole)
		}
	}
	if len(left) > 0 && f.state != wire.Going && f.Rounds == nil {
		return pass(f.to, left)
	}
	return nil
}

// feed forwards the events that a chunk completes.
func (f *flow) feed(ctx context.Context, chunk []byte) (over bool, err error) {
	events, bad := f.split.Feed(chunk)
	for _, e := range events {
		if f.state, err = f.event(ctx, f.folder, e, f.to); err != nil {
			return true, err
		}
		if f.Rounds != nil && f.state == wire.Ended {
			if f.to.Flush() != nil {
				return true, ErrClientGone
			}
			return true, nil
		}
	}
	if bad != nil {
		return true, f.tell(f.to, bad)
	}
	if f.to.Flush() != nil {
		return true, ErrClientGone
	}
	return false, nil
}

// live sends the client a keep-alive if the provider has sent nothing since the last one was due.
func (f *flow) live() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return
	}
	if !f.heard && f.state == wire.Going && len(f.split.Rest()) == 0 {
		if err := pass(f.to, keepAlive(f.Format)); err != nil {
			f.stop(err)
			return
		}
	}
	f.heard = false
	f.ping.Reset(f.Ping)
}

// stalled ends the wait for a provider that no longer sends. It may run late because it waited for the client. In that
// case the timer was set again already, or will be at once.
func (f *flow) stalled() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over && !f.read.Load() && time.Since(f.since) >= f.Stall {
		f.stop(errStalled)
	}
}

// stop ends the blocked read. The caller must hold the lock.
func (f *flow) stop(why error) {
	if f.why == nil {
		f.why = why
		_ = f.from.Close()
	}
}

// event folds one event and forwards it.
func (r *Relay) event(ctx context.Context, folder *wire.Folder, e wire.Event, to io.Writer) (wire.State,
	error) {
	before := folder.State()
	state := folder.Add(e)
	if r.Rounds != nil {
		if _, err := to.Write(r.Rounds.Weave.Add(e)); err != nil {
			return state, ErrClientGone
		}
		return state, nil
	}
	if state == wire.Ended && before == wire.Going && r.Commit != nil {
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

// commit waits for the answer to be stored, for a limited time.
func (r *Relay) commit(ctx context.Context, whole *wire.Reply) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Commit(ctx, whole)
	}()
	late := time.NewTimer(r.Patience)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// end finishes a stream whose provider sends no more.
func (r *Relay) end(to Sink, split *wire.Splitter, state wire.State) error {
	switch {
	case state == wire.Going:
		return r.tell(to, errDied)
	case len(split.Rest()) > 0:
		return pass(to, split.Rest())
	}
	return nil
}

// tell ends a broken stream for the client, and returns the reason.
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

// usageAlone reports whether a chunk of a chat stream contains only the usage and no choice.
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
