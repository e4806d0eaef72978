package badgerstore

import "sync"

// snapshots tracks the committed versions that have readers, and the newest one. Badger keeps what the oldest of them
// needs and may discard the rest.
type snapshots struct {
	mu   sync.Mutex
	live []*snapshot // oldest first; the last is the newest
}

type snapshot struct {
	version uint64
	readers int
}

func newSnapshots(version uint64) *snapshots {
	return &snapshots{live: []*snapshot{{version: version}}}
}

// current returns the newest version.
func (s *snapshots) current() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[len(s.live)-1].version
}

// pin returns the newest snapshot and keeps it readable until unpin.
func (s *snapshots) pin() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := s.live[len(s.live)-1]
	newest.readers++
	return newest
}

func (s *snapshots) unpin(p *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.readers--
}

// publish makes a version the newest and returns the oldest that is still needed.
func (s *snapshots) publish(version uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := s.live[:0]
	for _, p := range s.live {
		if p.readers > 0 {
			keep = append(keep, p)
		}
	}
	clear(s.live[len(keep):])
	s.live = append(keep, &snapshot{version: version})
	return s.live[0].version
}
