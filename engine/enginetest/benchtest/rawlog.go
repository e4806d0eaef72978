package benchtest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// RawLog appends to a plain file whose writers share fdatasyncs: the most that durable appends can do on a disk.
type RawLog struct {
	mu      sync.Mutex
	file    *os.File
	waiting chan struct{} // closed by the sync that covers everything written since it was made
	dirty   chan struct{}
	err     error
}

// NewRawLog makes a log in a folder that the benchmark's end removes. One goroutine syncs, over and over, for all who
// wrote before.
func NewRawLog(b *testing.B) *RawLog {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	l := &RawLog{file: f, waiting: make(chan struct{}), dirty: make(chan struct{}, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range l.dirty {
			l.mu.Lock()
			covered := l.waiting
			l.waiting = make(chan struct{})
			l.mu.Unlock()
			if err := fdatasync(f); err != nil {
				l.err = err
			}
			close(covered)
		}
	}()
	b.Cleanup(func() {
		close(l.dirty)
		<-ended
		_ = f.Close()
	})
	return l
}

// Append writes p and returns once it is synced.
func (l *RawLog) Append(p []byte) error {
	l.mu.Lock()
	_, err := l.file.Write(p)
	covered := l.waiting
	l.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case l.dirty <- struct{}{}:
	default:
	}
	<-covered
	return l.err
}
