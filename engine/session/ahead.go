package session

import (
	"bytes"
	"fmt"
	"runtime"

	"github.com/seed-0906e6bc/mneme/engine/transcript"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// Bounds of the turns of a file that are read ahead of the one that is checked or stored.
const (
	mostAhead      = 32
	mostAheadBytes = 4 << 20
)

// ahead reads turns of a file beside whoever checks or stores them in their order, because reading a turn and counting
// its tokens takes longer than all else. It takes half of the processors, and leaves the rest to those who wait for an
// answer.
type ahead struct {
	slots chan struct{}
	turns []*aheadTurn // in the order of the file
	bytes int
}

// aheadTurn is a turn that is read, once done is closed.
type aheadTurn struct {
	line int // its number
	size int // of its JSON, in bytes
	done chan struct{}
	file *FileTurn
	turn *transcript.Turn
	err  error
}

// begin has a turn read, and its tokens counted where it will be stored.
func (a *ahead) begin(im *transfer.Importing, line *transfer.ImportLine, sessions *Service) {
	if a.slots == nil {
		a.slots = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
	}
	raw := bytes.Clone(line.Raw())
	t := &aheadTurn{line: line.Number, size: len(raw), done: make(chan struct{})}
	a.turns, a.bytes = append(a.turns, t), a.bytes+t.size
	a.slots <- struct{}{}
	go func() {
		defer func() {
			if p := recover(); p != nil { // It ends this import, as it would in a request's own goroutine.
				t.err = fmt.Errorf("reading a turn: %v", p)
			}
			<-a.slots
			close(t.done)
		}()
		if t.file, t.err = readTurn(raw); t.err == nil {
			t.turn, _, t.err = t.file.parse(transcript.ParseMessages)
		}
		if t.err == nil && line.Passed {
			t.err = sessions.Measure(im.Ctx, t.turn)
		}
	}()
}

// take has do go through the turns that were begun: all of them, or those that are too many to wait for more. Its error
// is that of the turn's line.
func (a *ahead) take(all bool, do func(*aheadTurn) error) error {
	for len(a.turns) > 0 && (all || len(a.turns) > mostAhead || a.bytes > mostAheadBytes) {
		t := a.turns[0]
		a.turns, a.bytes = a.turns[1:], a.bytes-t.size
		<-t.done
		err := t.err
		if err == nil {
			err = do(t)
		}
		if err != nil {
			return transfer.AtLine(t.line, err)
		}
	}
	return nil
}
