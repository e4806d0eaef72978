package memory

import (
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// maxPlaced bounds the time, in ms since 1970, by which the recall index can place a memory.
const maxPlaced = 1 << 43

// batch gathers memories that one commit stores.
type batch struct {
	lines []*memoryLine
	last  int // number of the last line
	bytes int64
}

// read reads a line and holds it against all that does not depend on the store.
func (*Part) read(line *transfer.ImportLine) (*memoryLine, error) {
	in := new(memoryLine)
	if err := line.Into(in); err != nil {
		return nil, err
	}
	if in.Key == "" {
		return nil, fault.InvalidField("key", "required", "a memory of a file has its key")
	}
	if err := in.Memory.readmit(); err != nil {
		return nil, err
	}
	if len(in.History) > maxMemoryVersions {
		return nil, fault.InvalidField("history", "too_many", "must be at most %d versions", maxMemoryVersions)
	}
	last, bytes := 0, 0
	for i := range in.History {
		v := &in.History[i]
		if v.Key != in.Key || v.Version <= last || v.Version >= in.Version {
			return nil, fault.InvalidField("history", "invalid_value",
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
		return nil, fault.InvalidField("history", "too_long", "must be at most %d bytes of content", maxMemoryVersionBytes)
	}
	return in, nil
}

// readmit holds a memory of a file against what one that is stored must keep, and completes it likewise.
func (m *Memory) readmit() error {
	spec := Spec{Key: m.Key, Content: m.Content, Category: m.Category, Tags: m.Tags, Source: m.Source,
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
	m.CreatedAt, m.UpdatedAt = records.ToTheMillisecond(m.CreatedAt), records.ToTheMillisecond(m.UpdatedAt)
	switch {
	case m.Damaged:
		return fault.InvalidField("damaged", "invalid_value", "a damaged memory cannot be imported")
	case m.Version < 1 || m.Version > 1<<31-1:
		return fault.InvalidField("version", "out_of_range", "must count from 1")
	case m.CreatedAt.UnixMilli() < 0 || m.UpdatedAt.Before(m.CreatedAt) || m.UpdatedAt.UnixMilli() >= maxPlaced:
		return fault.InvalidField("updated_at", "out_of_range",
			"must not lie before created_at, nor that before 1970, nor after 2248")
	case m.Category == CategoryDaily && m.ExpiresAt == nil:
		return fault.InvalidField("expires_at", "required", "a daily memory of a file says when it expires")
	}
	if m.ExpiresAt != nil {
		at := records.ToTheMillisecond(*m.ExpiresAt)
		m.ExpiresAt = &at
	}
	return checkWriter(m.KeyID, m.Agent)
}

// checkWriter bounds what a file says of who wrote something.
func checkWriter(keyID, agent string) error {
	for field, id := range map[string]string{"key_id": keyID, "agent": agent} {
		if id != "" && !ident.ValidID(id) {
			return ident.CheckID(field, id)
		}
	}
	return nil
}

func (p *Part) Check(im *transfer.Importing, line *transfer.ImportLine) error {
	in, err := p.read(line)
	if err != nil {
		return err
	}
	if err := im.Needs("project", in.Project); err != nil {
		return err
	}
	if err := im.Claim(memoryType, in.Project, in.Key); err != nil {
		return err
	}
	if line.Stored || in.expired(p.E.db.Now()) {
		return nil
	}
	p.adds.Add(records.Amount{Count: 1, Bytes: in.weight()})
	project, _, _, err := p.E.projects.Read(im.Ctx, im.Caller, in.Project, nil)
	if fault.IsNotFound(err) { // the project is yet to be made
		return nil
	}
	if err != nil {
		return err
	}
	found, err := p.E.loadLive(im.Ctx, im.Caller.Tenant, project, []string{in.Key})
	if err == nil && found[0] != nil {
		im.Conflict(line, "memory %q of project %q exists", in.Key, in.Project)
	}
	return err
}

func (p *Part) Fits(im *transfer.Importing) error {
	use := p.E.use.Reserve(im.Caller.Tenant)
	defer use.End(false)
	return p.E.hold(im.Ctx, use, p.adds)
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

// Store adds a memory to the batch at hand.
func (p *Part) Store(im *transfer.Importing, line *transfer.ImportLine) error {
	in, err := p.read(line)
	if err != nil || line.Stored {
		return err
	}
	if len(p.batch.lines) == exported || p.batch.bytes+in.weight() > records.StagedBytes {
		if err := p.End(im); err != nil {
			return err
		}
	}
	b := &p.batch
	b.lines, b.bytes, b.last = append(b.lines, in), b.bytes+in.weight(), line.Number
	return nil
}

// End commits the batch at hand.
func (p *Part) End(im *transfer.Importing) error {
	b := p.batch
	if p.batch = (batch{}); len(b.lines) == 0 {
		return nil
	}
	use := p.E.use.Reserve(im.Caller.Tenant)
	err := im.Commit(memoryType, b.last, func(t *records.Tx) (stored int, err error) {
		var adds records.Amount
		for _, in := range b.lines {
			if in.expired(t.Now) {
				continue
			}
			if err := p.put(im, t, in, &adds); err != nil {
				return 0, err
			}
			stored++
		}
		return stored, p.E.hold(t.Ctx, use, adds)
	})
	use.End(err == nil)
	return err
}

// put collects the writes of one memory. One of the key may be there still that has expired.
func (p *Part) put(im *transfer.Importing, t *records.Tx, in *memoryLine, adds *records.Amount) error {
	project, err := p.E.projects.Project(t, im.Caller, in.Project)
	if err != nil {
		return err
	}
	old, err := p.E.memory(t, project, in.Key)
	if err != nil {
		return err
	}
	if old != nil && !old.Expired(t.Now) {
		return fault.Errorf(fault.Conflict, "import_conflict", "memory %q of project %q was made meanwhile", in.Key, in.Project)
	}
	rec := &Record{Memory: in.Memory, Incarnation: p.E.db.NewIncarnation()}
	written := map[string]bool{}
	for i := range in.History {
		v := &in.History[i]
		kept := Record{Memory: v.Memory, Incarnation: rec.Incarnation, Replaced: &v.Replaced}
		value, err := kept.encode()
		if err != nil {
			return err
		}
		key := records.MemoryVersion.Key(project.Incarnation, in.Key, uint32(v.Version))
		t.Put(key, value)
		written[string(key)] = true
		rec.History = append(rec.History, keptVersion{Version: v.Version, Bytes: kept.Bytes})
	}
	if old != nil {
		adds.Subtract(records.Amount{Count: 1, Bytes: old.weight()})
		for _, kept := range old.History {
			if key := records.MemoryVersion.Key(project.Incarnation, in.Key, uint32(kept.Version)); !written[string(key)] {
				t.Delete(key)
			}
		}
	}
	adds.Add(records.Amount{Count: 1, Bytes: rec.weight()})
	return p.E.put(t, project, rec, old)
}
