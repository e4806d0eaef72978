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

// Relay passes a provider's stream on, byte for byte and event by event, and folds a copy of it.
type Relay struct {
	Format chat.Format
	// Commit is called with the whole answer before the event that ends it is passed on, so that a client that goes on
	// at once finds what it was told. The event waits for it no longer than Patience. It may go on behind the end of
	// Run, so ctx must not end with the request.
	Commit   func(ctx context.Context, r *wire.Reply)
	Patience time.Duration
	// HideUsage takes the chunk with the usage out of a chat stream, because the client did not ask for it.
	HideUsage bool
	Stall     time.Duration // at most between two bytes of the provider
	Ping      time.Duration // between two signs of life, where the provider sends none
	// Rounds makes one stream of several; nil: there is one, and the client gets its bytes.
	Rounds *Rounds
}

// Rounds are what follows a whole answer before the client's stream ends.
type Rounds struct {
	Weave *wire.Weave
	// Next takes a round's whole answer. It gives the stream of the next round, which Run closes, or nil and the client's
	// answer where no round follows.
	Next func(ctx context.Context, r *wire.Reply) (next io.ReadCloser, whole *wire.Reply, err error)
}

// ErrClientGone says that the client reads no more.
var ErrClientGone = errors.New("the client has gone")

// Run relays until the stream's last event, or until one side breaks off. Where ctx or a silence ends it while from is
// read, it closes from. The error says why there is no whole answer; where the provider broke off, the client was told.
func (r *Relay) Run(ctx context.Context, from io.ReadCloser, to Sink) (*wire.Folder, error) {
	folder, err := r.round(ctx, from, to)
	for err == nil && r.Rounds != nil && folder.State() == wire.Ended {
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
			return wire.New(r.Format), err // Next has counted what the provider reported.
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

// chunkSize is how much of a provider's stream is read at once.
const chunkSize = 2 << 10

// flow is one stream of the provider's on its way to the client. Whoever relays waits in a read of the provider, so that
// an idle stream needs one goroutine; timers give signs of life meanwhile, and end the read where they must by closing
// what is read.
type flow struct {
	*Relay
	to    Sink
	from  io.Closer
	split wire.Splitter
	read  atomic.Bool // something was read that waits to be passed on

	mu     sync.Mutex // held by who passes something to the client
	folder *wire.Folder
	state  wire.State
	since  time.Time // the provider was waited for
	heard  bool      // the provider sent something since the last sign of life was due
	over   bool      // nothing may be passed on any more
	why    error     // the reason why from was closed here

	ping, stall *time.Timer
}

// round relays one stream of the provider's.
func (r *Relay) round(ctx context.Context, from io.ReadCloser, to Sink) (*wire.Folder, error) {
	f := &flow{Relay: r, to: to, from: from, folder: wire.New(r.Format)}
	defer context.AfterFunc(ctx, func() { _ = from.Close() })()
	f.mu.Lock() // until the timers are known to their functions
	f.since = time.Now()
	f.ping, f.stall = time.AfterFunc(r.Ping, f.live), time.AfterFunc(r.Stall, f.stalled)
	f.mu.Unlock()
	defer f.end()
	chunk := make([]byte, chunkSize)
	for {
		n, err := from.Read(chunk)
		f.read.Store(n > 0)
		if over, err := f.pass(ctx, chunk[:n], err != nil); over {
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

// pass passes on what was read, which is the last of it at the end of what can be read. It tells whether the round is
// over, and with which error.
func (f *flow) pass(ctx context.Context, chunk []byte, last bool) (over bool, err error) {
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
	if last { // An answer that is whole has not broken off, though only its connection stayed open.
		return true, f.Relay.end(f.to, &f.split, f.state)
	}
	return false, nil
}

// feed passes the events on that a chunk completes.
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

// live gives the client a sign of life where the provider was silent since the last one was due.
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

// stalled ends the waiting for a provider that sends nothing any more. It may have waited for the client itself, and so
// be late: then the timer is set again, or is about to be.
func (f *flow) stalled() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over && !f.read.Load() && time.Since(f.since) >= f.Stall {
		f.stop(errStalled)
	}
}

// stop ends the read that waits. The lock must be held.
func (f *flow) stop(why error) {
	if f.why == nil {
		f.why = why
		_ = f.from.Close()
	}
}

// event folds one event and passes it on.
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

// commit waits for the answer to be stored, but not for ever.
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

// end closes a stream whose provider sends no more.
func (r *Relay) end(to Sink, split *wire.Splitter, state wire.State) error {
	switch {
	case state == wire.Going:
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
