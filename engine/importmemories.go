package engine

import (
	"time"
)

// maxPlaced bounds the time, in ms since 1970, by which the recall index can place a memory.
const maxPlaced = 1 << 43

// memoryBatch gathers memories that one commit stores.
type memoryBatch struct {
	lines []*memoryLine
	bytes int64
}

// memory reads a line and holds it against all that does not depend on the store.
func (im *importing) memory(line *importLine) (*memoryLine, error) {
	in := new(memoryLine)
	if err := line.into(in); err != nil {
		return nil, err
	}
	if in.Key == "" {
		return nil, invalidField("key", "required", "a memory of a file has its key")
	}
	if err := in.Memory.readmit(); err != nil {
		return nil, err
	}
	if len(in.History) > maxMemoryVersions {
		return nil, invalidField("history", "too_many", "must be at most %d versions", maxMemoryVersions)
	}
	last, bytes := 0, 0
	for i := range in.History {
		v := &in.History[i]
		if v.Key != in.Key || v.Version <= last || v.Version >= in.Version {
			return nil, invalidField("history", "invalid_value", "must be earlier versions of the memory, the oldest first")
		}
		if err := v.Memory.readmit(); err != nil {
			return nil, err
		}
		if err := checkWriter(v.Replaced.KeyID, v.Replaced.Agent); err != nil {
			return nil, err
		}
		v.Replaced.At = v.Replaced.At.UTC()
		last, bytes = v.Version, bytes+len(v.Content)
	}
	if len(in.History) > 1 && bytes > maxMemoryVersionBytes {
		return nil, invalidField("history", "too_long", "must be at most %d bytes of content", maxMemoryVersionBytes)
	}
	return in, nil
}

// readmit holds a memory of a file against what one that is stored must keep, and completes it likewise.
func (m *Memory) readmit() error {
	spec := MemorySpec{Key: m.Key, Content: m.Content, Category: m.Category, Tags: m.Tags, Source: m.Source,
		Importance: &m.Importance, ExpiresAt: m.ExpiresAt}
	if m.SessionID != nil {
		spec.SessionID = *m.SessionID
	}
	if err := spec.complete(); err != nil {
		return err
	}
	m.Category, m.Tags = spec.Category, spec.Tags
	if m.SessionID = nil; spec.SessionID != "" {
		m.SessionID = &spec.SessionID
	}
	m.CreatedAt, m.UpdatedAt = toTheMillisecond(m.CreatedAt), toTheMillisecond(m.UpdatedAt)
	switch {
	case m.Damaged:
		return invalidField("damaged", "invalid_value", "a damaged memory cannot be imported")
	case m.Version < 1 || m.Version > 1<<31-1:
		return invalidField("version", "out_of_range", "must count from 1")
	case m.CreatedAt.UnixMilli() < 0 || m.UpdatedAt.Before(m.CreatedAt) || m.UpdatedAt.UnixMilli() >= maxPlaced:
		return invalidField("updated_at", "out_of_range", "must not lie before created_at, nor that before 1970, nor after 2248")
	case m.Category == categoryDaily && m.ExpiresAt == nil:
		return invalidField("expires_at", "required", "a daily memory of a file says when it expires")
	}
	if m.ExpiresAt != nil {
		at := toTheMillisecond(*m.ExpiresAt)
		m.ExpiresAt = &at
	}
	return checkWriter(m.KeyID, m.Agent)
}

func toTheMillisecond(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// checkWriter bounds what a file says of who wrote something.
func checkWriter(keyID, agent string) error {
	for field, id := range map[string]string{"key_id": keyID, "agent": agent} {
		if id != "" && !validID(id) {
			return checkID(field, id)
		}
	}
	return nil
}

func checkMemory(im *importing, line *importLine) error {
	in, err := im.memory(line)
	if err != nil {
		return err
	}
	if !im.projects[in.Project] {
		return invalidField("project", "unknown_project", "no project %q comes before it in the file", in.Project)
	}
	if !im.keys.add(in.Project, in.Key) {
		return invalidField("key", "repeated", "memory %q of project %q comes twice", in.Key, in.Project)
	}
	if in.expired(im.e.now()) {
		return nil
	}
	p, _, _, err := im.e.readProject(im.ctx, im.caller, in.Project, nil)
	if err != nil && !isNotFound(err) {
		return err
	}
	var have *memoryRecord
	if err == nil {
		found, err := im.e.loadLive(im.ctx, im.caller.Tenant, p, []string{in.Key})
		if err != nil {
			return err
		}
		have = found[0]
	}
	if have != nil {
		im.conflict("memory %q of project %q exists", in.Key, in.Project)
		if im.mode == conflictSkip {
			return nil
		}
		im.memories.subtract(amount{1, have.weight()})
	}
	im.memories.add(amount{1, in.weight()})
	return nil
}

func (l *memoryLine) expired(now time.Time) bool {
	return l.ExpiresAt != nil && !l.ExpiresAt.After(now)
}

func (l *memoryLine) weight() int64 {
	n := len(l.Content)
	for i := range l.History {
		n += len(l.History[i].Content)
	}
	return int64(n)
}

// storeMemory adds a memory to the batch at hand. One that takes another's place stands in a batch of its own: what
// taking that out of the index writes is not known beforehand.
func storeMemory(im *importing, line *importLine) error {
	in, err := im.memory(line)
	if err != nil {
		return err
	}
	b := &im.batch
	if len(b.lines) == memoriesExported || b.bytes+in.weight() > stagedBytes || im.mode == conflictReplace {
		if err := im.storeMemories(); err != nil {
			return err
		}
	}
	b.lines, b.bytes = append(b.lines, in), b.bytes+in.weight()
	return nil
}

// storeMemories commits the batch at hand.
func (im *importing) storeMemories() error {
	b := im.batch
	if im.batch = (memoryBatch{}); len(b.lines) == 0 {
		return nil
	}
	use := im.e.memoryUse.reserve(im.caller.Tenant)
	done, err := update(im.ctx, im.e, im.caller, Once{}, func(t *tx) ([]string, error) {
		var change amount
		done := make([]string, len(b.lines))
		for i, in := range b.lines {
			var err error
			if done[i], err = im.putMemory(t, in, &change); err != nil {
				return nil, err
			}
		}
		return done, im.e.holdMemories(t.ctx, use, change)
	})
	use.end(err == nil)
	if err == nil {
		for _, how := range done {
			im.note(how, memoryType)
		}
	}
	return err
}

// putMemory collects the writes of one memory and says what became of it.
func (im *importing) putMemory(t *tx, in *memoryLine, change *amount) (how string, err error) {
	if in.expired(t.now) {
		return "skipped", nil
	}
	p, err := t.project(im.caller, in.Project)
	if err != nil {
		return "", err
	}
	old, err := t.memory(p, in.Key)
	if err != nil {
		return "", err
	}
	how = "imported"
	if old != nil && !old.expired(t.now) {
		switch how = "replaced"; im.mode {
		case conflictSkip:
			return "skipped", nil
		case conflictFail:
			return "", errorf(Conflict, "import_conflict", "memory %q of project %q was made meanwhile", in.Key, in.Project)
		}
	}
	rec := &memoryRecord{Memory: in.Memory, Incarnation: t.e.newIncarnation()}
	written := map[string]bool{}
	for i := range in.History {
		v := &in.History[i]
		kept := memoryRecord{Memory: v.Memory, Incarnation: rec.Incarnation, Replaced: &v.Replaced}
		value, err := kept.encode()
		if err != nil {
			return "", err
		}
		key := memoryVersionKey(p.Incarnation, in.Key, v.Version)
		t.put(key, value)
		written[string(key)] = true
		rec.History = append(rec.History, keptVersion{Version: v.Version, Bytes: kept.Bytes})
	}
	if old != nil {
		change.subtract(amount{1, old.weight()})
		for _, kept := range old.History {
			if key := memoryVersionKey(p.Incarnation, in.Key, kept.Version); !written[string(key)] {
				t.delete(key)
			}
		}
	}
	change.add(amount{1, rec.weight()})
	return how, t.putMemory(p, rec, old)
}
