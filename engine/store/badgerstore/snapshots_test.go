package badgerstore

import "testing"

// TestSnapshots tracks the oldest version that has a reader: Badger may discard what only older ones need.
func TestSnapshots(t *testing.T) {
	s := newSnapshots(7)
	old := s.pin()
	if got := s.publish(8); got != 7 {
		t.Errorf("version %d may be discarded though 7 is read", got)
	}
	newer := s.pin()
	s.unpin(old)
	if got := s.publish(9); got != 8 || newer.version != 8 {
		t.Errorf("oldest is %d, newer is %d, want 8", got, newer.version)
	}
	s.unpin(newer)
	if got := s.publish(10); got != 10 || s.current() != 10 || len(s.live) != 1 {
		t.Errorf("oldest is %d of %d, want 10 alone", got, len(s.live))
	}
}
