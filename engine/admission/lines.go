package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrFull refuses one more in a line that is full.
var ErrFull = errors.New("the line is full")

// Lines lets one holder at a time through for each name. The others wait in the order in which they came.
type Lines struct {
	longest int // how many may wait for one name

	mu    sync.Mutex
	lines map[string][]chan struct{} // the first of a line holds the place; each is closed when its turn comes
}

// NewLines makes Lines in each of which so many may wait.
func NewLines(longest int) *Lines {
	return &Lines{longest: longest, lines: map[string][]chan struct{}{}}
}

// Enter waits for a name's place, or for ctx to end, whose error it then answers. Where too many wait already it
// answers ErrFull at once. While it waits it gives up the place that ctx carries. Whoever was let through calls leave.
func (l *Lines) Enter(ctx context.Context, name string) (leave func(), err error) {
	turn := make(chan struct{})
	l.mu.Lock()
	line := l.lines[name]
	if len(line) > l.longest {
		l.mu.Unlock()
		return nil, ErrFull
	}
	if l.lines[name] = append(line, turn); len(line) == 0 {
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

// leave takes one out of a line, and lets the next through where that one held the place.
func (l *Lines) leave(name string, turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.lines[name], turn)
	line := slices.Delete(l.lines[name], at, at+1)
	if len(line) == 0 {
		delete(l.lines, name)
		return
	}
	if l.lines[name] = line; at == 0 {
		close(line[0])
	}
}
