package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrFull is the error of Enter when too many wait already.
var ErrFull = errors.New("the line is full")

// Lines admits one holder at a time for each name. The others wait in the order in which they came.
type Lines struct {
	longest int // how many may wait for one name

	mu    sync.Mutex
	lines map[string][]chan struct{} // the first of a line holds the place; each is closed when its turn comes
}

// NewLines returns Lines in which at most longest wait for one name.
func NewLines(longest int) *Lines {
	return &Lines{longest: longest, lines: map[string][]chan struct{}{}}
}

// Enter waits until the caller is first in the line of a name; then the caller must call leave. If ctx ends first, Enter
// returns its error. If too many wait already, it returns ErrFull at once. While it waits, it gives up the place that ctx
// carries.
func (l *Lines) Enter(ctx context.Context, name string) (leave func(), err error) {
	turn := make(chan struct{})
	l.mu.Lock()
	line := l.lines[name]
	if len(line) > l.longest {
		l.mu.Unlock()
		return nil, ErrFull
	}
	l.lines[name] = append(line, turn)
	if len(line) == 0 {
		close(turn)
	}
	l.mu.Unlock()
	leave = func() { l.leave(name, turn) }
	select {
	case <-turn:
		return leave, nil
	default:
	}
	defer Pause(ctx)()
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// leave takes one out of a line, and admits the next if that one was first.
func (l *Lines) leave(name string, turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.lines[name], turn)
	line := slices.Delete(l.lines[name], at, at+1)
	if len(line) == 0 {
		delete(l.lines, name)
		return
	}
	l.lines[name] = line
	if at == 0 {
		close(line[0])
	}
}
