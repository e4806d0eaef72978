package engine

import "time"

// maxPlaced bounds the time, in ms since 1970, by which the recall index can place a memory.
const maxPlaced = 1 << 43

// memoryBatch gathers memories that one commit stores.
type memoryBatch struct {
	lines []*memoryLine
	last  int // number of the last line
	bytes int64
}

// read reads a line and holds it against all that does not depend on the store.
func (*memoryPart) read(line *importLine) (*memoryLine, error) {
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
			return nil, invalidField("history", "invalid_value",
				"must be earlier versions of the memory, the oldest first")
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
		return invalidField("updated_at", "out_of_range",
			"must not lie before created_at, nor that before 1970, nor after 2248")
	case m.Category == categoryDaily && m.ExpiresAt == nil:
		return invalidField("expires_at", "required", "a daily memory of a file says when it expires")
	}
	if m.ExpiresAt != nil {
		at := toTheMillisecond(*m.ExpiresAt)
		m.ExpiresAt = &at
	}
	return checkWriter(m.KeyID, m.Agent)
}

// checkWriter bounds what a file says of who wrote something.
func checkWriter(keyID, agent string) error {
	for field, id := range map[string]string{"key_id": keyID, "agent": agent} {
		if id != "" && !validID(id) {
			return checkID(field, id)
		}
	}
	return nil
}

func (p *memoryPart) check(im *importing, line *importLine) error {
	in, err := p.read(line)
	if err != nil {
		return err
	}
	if err := im.needs("project", in.Project); err != nil {
		return err
	}
	if err := im.claim(memoryType, in.Project, in.Key); err != nil {
		return err
	}
	if line.stored || in.expired(p.e.now()) {
		return nil
	}
	p.adds.add(amount{1, in.weight()})
	project, _, _, err := p.e.readProject(im.ctx, im.caller, in.Project, nil)
	if isNotFound(err) { // the project is yet to be made
		return nil
	}
	if err != nil {
		return err
	}
	found, err := p.e.loadLive(im.ctx, im.caller.Tenant, project, []string{in.Key})
	if err == nil && found[0] != nil {
		im.conflict(line, "memory %q of project %q exists", in.Key, in.Project)
	}
	return err
}

func (p *memoryPart) fits(im *importing) error {
	use := p.e.memoryUse.reserve(im.caller.Tenant)
	defer use.end(false)
	return p.e.holdMemories(im.ctx, use, p.adds)
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

// store adds a memory to the batch at hand.
func (p *memoryPart) store(im *importing, line *importLine) error {
	in, err := p.read(line)
	if err != nil || line.stored {
		return err
	}
	if len(p.batch.lines) == memoriesExported || p.batch.bytes+in.weight() > stagedBytes {
		if err := p.end(im); err != nil {
			return err
		}
	}
	b := &p.batch
	b.lines, b.bytes, b.last = append(b.lines, in), b.bytes+in.weight(), line.number
	return nil
}

// end commits the batch at hand.
func (p *memoryPart) end(im *importing) error {
	b := p.batch
	if p.batch = (memoryBatch{}); len(b.lines) == 0 {
		return nil
	}
	use := p.e.memoryUse.reserve(im.caller.Tenant)
	err := im.commit(memoryType, b.last, func(t *tx) (stored int, err error) {
		var adds amount
		for _, in := range b.lines {
			if in.expired(t.now) {
				continue
			}
			if err := p.put(im, t, in, &adds); err != nil {
				return 0, err
			}
			stored++
		}
		return stored, p.e.holdMemories(t.ctx, use, adds)
	})
	use.end(err == nil)
	return err
}

// put collects the writes of one memory. One of the key may be there still that has expired.
func (p *memoryPart) put(im *importing, t *tx, in *memoryLine, adds *amount) error {
	project, err := t.project(im.caller, in.Project)
	if err != nil {
		return err
	}
	old, err := t.memory(project, in.Key)
	if err != nil {
		return err
	}
	if old != nil && !old.expired(t.now) {
		return errorf(Conflict, "import_conflict", "memory %q of project %q was made meanwhile", in.Key, in.Project)
	}
	rec := &memoryRecord{Memory: in.Memory, Incarnation: p.e.newIncarnation()}
	written := map[string]bool{}
	for i := range in.History {
		v := &in.History[i]
		kept := memoryRecord{Memory: v.Memory, Incarnation: rec.Incarnation, Replaced: &v.Replaced}
		value, err := kept.encode()
		if err != nil {
			return err
		}
		key := kindMemoryVersion.Key(project.Incarnation, in.Key, uint32(v.Version))
		t.put(key, value)
		written[string(key)] = true
		rec.History = append(rec.History, keptVersion{Version: v.Version, Bytes: kept.Bytes})
	}
	if old != nil {
		adds.subtract(amount{1, old.weight()})
		for _, kept := range old.History {
			if key := kindMemoryVersion.Key(project.Incarnation, in.Key, uint32(kept.Version)); !written[string(key)] {
				t.delete(key)
			}
		}
	}
	adds.add(amount{1, rec.weight()})
	return t.putMemory(project, rec, old)
}
