package memory

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

const lineType = "memory"

// How many memories an export reads, and an import writes, together.
const (
	readAtOnce  = 32
	writeAtOnce = 256
)

// maxPlaced limits the time, in ms since 1970, of a memory in the index.
const maxPlaced = 1 << 43

// line is a memory with its earlier versions, oldest first.
type line struct {
	transfer.FileLine
	Project string `json:"project"`
	Memory
	History []Version `json:"history,omitempty"`
}

// part is the memories of a tenant's file.
type part struct {
	transfer.SimplePart
	svc   *Service
	adds  records.Amount // of the lines checked so far
	batch *batch         // the batch that the next line may join, or nil
	under chan error     // receives the result of the batch that is being stored; nil if there is none
}

// batch is the memories of one project that one commit stores. The next one is read while it is being stored.
type batch struct {
	lines     []*line
	documents []index.Analysed // of the lines
	last      int              // number of the last line
	bytes     int64
}

// Part returns the part of one tenant's file for memories.
func (svc *Service) Part() transfer.Part { return &part{svc: svc} }

func (*part) Types() []string { return []string{lineType} }

// Export writes memories in the order of their last change, newest first. One that changes during the export appears
// again, and is in the file once.
func (p *part) Export(x *transfer.Exporting) error {
	seen := transfer.NameSet{}
	return project.Each(x, func(project *project.Record) error {
		rng := records.MemoryTime.Under(project.Incarnation)
		rng.Limit, rng.KeysOnly, rng.Reverse = readAtOnce, true, true
		var keys []string
		for it, err := range p.svc.db.Scan(x.Ctx, x.Caller.Tenant, rng) {
			if err != nil {
				return err
			}
			_, _, key, _ := records.MemoryTime.Split(it.Key)
			if keys = append(keys, key); len(keys) == readAtOnce {
				if err := p.exportMemories(x, project, keys, seen); err != nil {
					return err
				}
				keys = nil
			}
		}
		return p.exportMemories(x, project, keys, seen)
	})
}

// exportMemories writes the memories of the keys that still exist.
func (p *part) exportMemories(x *transfer.Exporting, project *project.Record, keys []string,
	seen transfer.NameSet) error {
	found, err := p.svc.readAll(x.Ctx, x.Caller.Tenant, project, keys)
	if err != nil {
		return err
	}
	for i, rec := range found {
		if rec == nil || !seen.Add(project.ID, keys[i]) {
			continue
		}
		if rec.Damaged {
			return fault.Errorf(fault.Internal, "storage_damaged",
				"memory %q cannot be read, so the export would not be whole", keys[i])
		}
		out := line{FileLine: transfer.FileLine{Type: lineType}, Project: project.ID, Memory: rec.Memory}
		out.ETag = ""
		out.History, err = p.svc.versions(x.Ctx, x.Caller.Tenant, project.Incarnation, rec, rec.History)
		if err != nil {
			return err
		}
		if err := x.Put(out); err != nil {
			return err
		}
	}
	return nil
}

// read reads a line and makes all checks that do not need the store.
func (*part) read(from *transfer.ImportLine) (*line, error) {
	in := new(line)
	if err := from.Into(in); err != nil {
		return nil, err
	}
	if in.Key == "" {
		return nil, fault.InvalidField("key", "required", "a memory of a file has its key")
	}
	if err := in.Memory.readmit(); err != nil {
		return nil, err
	}
	if len(in.History) > maxVersions {
		return nil, fault.InvalidField("history", "too_many", "must be at most %d versions", maxVersions)
	}
	last, bytes := 0, 0
	for i := range in.History {
		v := &in.History[i]
		if v.ID() != in.ID() || v.Version <= last || v.Version >= in.Version {
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
		last, bytes = v.Version, bytes+v.size()
	}
	if len(in.History) > 1 && bytes > maxVersionBytes {
		return nil, fault.InvalidField("history", "too_long", "must be at most %d bytes of content", maxVersionBytes)
	}
	return in, nil
}

// readmit checks a memory in a file against the rules for stored memories, and completes it in the same way.
func (m *Memory) readmit() error {
	spec := Spec{Key: m.Key, Namespace: m.Namespace, OccurredAt: m.OccurredAt, Metadata: m.Metadata,
		Value: m.Value, Content: m.Content, Category: m.Category, Tags: m.Tags, Source: m.Source,
		Importance: &m.Importance, ExpiresAt: m.ExpiresAt}
	if m.SessionID != nil {
		spec.SessionID = *m.SessionID
	}
	spec.Trust, spec.Sources = m.Trust, m.sources()
	if err := spec.complete(); err != nil {
		return err
	}
	if err := m.readmitGrounds(); err != nil {
		return err
	}
	m.Category, m.Tags, m.Content = spec.Category, spec.Tags, spec.Content
	m.OccurredAt, m.Metadata, m.Value = spec.OccurredAt, spec.Metadata, spec.Value
	m.SessionID = nil
	if spec.SessionID != "" {
		m.SessionID = &spec.SessionID
	}
	m.ETag = ""
	m.CreatedAt, m.UpdatedAt = records.ToTheMillisecond(m.CreatedAt), records.ToTheMillisecond(m.UpdatedAt)
	switch {
	case m.Damaged:
		return fault.InvalidField("damaged", "invalid_value", "a damaged memory cannot be imported")
	case m.Version < 1 || m.Version > 1<<31-1:
		return fault.InvalidField("version", "out_of_range", "must count from 1")
	case m.CreatedAt.UnixMilli() < 0 || m.UpdatedAt.Before(m.CreatedAt) || m.UpdatedAt.UnixMilli() >= maxPlaced:
		return fault.InvalidField("updated_at", "out_of_range",
			"must not be before created_at, and both must be between 1970 and 2248")
	case m.Category == Daily && m.ExpiresAt == nil:
		return fault.InvalidField("expires_at", "required", "a daily memory of a file says when it expires")
	}
	if m.ExpiresAt != nil {
		at := records.ToTheMillisecond(*m.ExpiresAt)
		m.ExpiresAt = &at
	}
	return checkWriter(m.KeyID, m.Agent)
}

// readmitGrounds checks the trust and the provenance of a memory in a file. Only an admin can import, so the file's word
// counts. A memory of an earlier build, whose file does not say, is as trusted as a model.
func (m *Memory) readmitGrounds() error {
	m.Trust = cmp.Or(m.Trust, TrustModel)
	if m.Provenance == nil {
		return nil
	}
	switch p := m.Provenance; {
	case !slices.Contains([]Origin{OriginAPI, OriginTool, OriginFile, OriginRemember, OriginImport}, p.Origin):
		return fault.InvalidField("provenance", "invalid_value", "the origin must be api, tool, file, remember or import")
	case p.Policy != "" && !ident.ValidID(p.Policy), p.DecisionID != "" && !ident.ValidID(p.DecisionID), p.Version < 0,
		!validReason(p.Reason):
		return fault.InvalidField("provenance", "invalid_value", "policy, version, reason or decision_id is not one")
	}
	return nil
}

// validReason reports whether a text is the code of a policy's reason, or empty.
func validReason(s string) bool {
	return len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// checkWriter limits the names of writers in a file.
func checkWriter(keyID, agent string) error {
	for field, id := range map[string]string{"key_id": keyID, "agent": agent} {
		if id == "" {
			continue
		}
		if err := ident.CheckID(field, id); err != nil {
			return err
		}
	}
	return nil
}

func (p *part) Check(im *transfer.Importing, from *transfer.ImportLine) error {
	in, err := p.read(from)
	if err != nil {
		return err
	}
	if err := im.Needs("project", in.Project); err != nil {
		return err
	}
	if err := im.Claim(lineType, in.Project, in.ID()); err != nil {
		return err
	}
	if from.Stored || in.expired(p.svc.db.Now()) {
		return nil
	}
	p.adds.Add(records.Amount{Count: 1, Bytes: in.bytes()})
	project, _, _, err := p.svc.projects.Read(im.Ctx, im.Caller, in.Project, nil)
	if fault.IsNotFound(err) { // the project does not exist yet
		return nil
	}
	if err != nil {
		return err
	}
	found, err := p.svc.readAll(im.Ctx, im.Caller.Tenant, project, []string{in.ID()})
	if err == nil && found[0] != nil {
		im.Conflict(from, "memory %q of project %q exists", in.ID(), in.Project)
	}
	return err
}

func (p *part) Fits(im *transfer.Importing) error {
	room := p.svc.tallies.Reserve(im.Caller.Tenant)
	defer room.End(false)
	return p.svc.hold(im.Ctx, room, p.adds)
}

func (l *line) expired(now time.Time) bool {
	return l.ExpiresAt != nil && !l.ExpiresAt.After(now)
}

// bytes returns the size of the line's content, including that of earlier versions.
func (l *line) bytes() int64 {
	n := l.size()
	for i := range l.History {
		n += l.History[i].size()
	}
	return int64(n)
}

// Store adds a memory to the current batch.
func (p *part) Store(im *transfer.Importing, from *transfer.ImportLine) error {
	in, err := p.read(from)
	if err != nil || from.Stored {
		return err
	}
	if b := p.batch; b != nil && (len(b.lines) == writeAtOnce || b.bytes+in.bytes() > records.StagedBytes ||
		b.lines[0].Project != in.Project) {
		if err := p.flush(im); err != nil {
			return err
		}
	}
	if p.batch == nil {
		p.batch = new(batch)
	}
	b := p.batch
	b.lines, b.bytes, b.last = append(b.lines, in), b.bytes+in.bytes(), from.Number
	b.documents = append(b.documents, p.svc.analyse(&Record{Memory: in.Memory}))
	return nil
}

// flush starts storing the current batch, once the previous one is stored.
func (p *part) flush(im *transfer.Importing) error {
	if err := p.wait(); err != nil || p.batch == nil {
		return err
	}
	b, under := p.batch, make(chan error, 1)
	go func() {
		defer func() {
			if defect := recover(); defect != nil { // A panic fails this import and nothing else.
				under <- fmt.Errorf("storing memories of a file: %v\n%s", defect, debug.Stack())
			}
		}()
		under <- p.commit(im, b)
	}()
	p.batch, p.under = nil, under
	return nil
}

// wait waits until no batch is being stored.
func (p *part) wait() error {
	if p.under == nil {
		return nil
	}
	under := p.under
	p.under = nil
	return <-under
}

// End waits until all lines are stored.
func (p *part) End(im *transfer.Importing) error {
	if err := p.flush(im); err != nil {
		return err
	}
	return p.wait()
}

// Abandon waits for what is being stored, so that nothing changes after the import has been answered.
func (p *part) Abandon(context.Context) {
	_ = p.wait() // The import has failed already.
}

func (p *part) commit(im *transfer.Importing, b *batch) error {
	room := p.svc.tallies.Reserve(im.Caller.Tenant)
	err := im.Commit(lineType, b.last, func(t *records.Tx) (stored int, err error) {
		adds, stored, err := p.putAll(im, t, b)
		if err != nil {
			return 0, err
		}
		return stored, p.svc.hold(t.Ctx, room, adds)
	})
	room.End(err == nil)
	return err
}

// putAll adds the writes of a batch's memories that have not expired, and returns how much they add. There may still be
// an expired memory under the same key.
func (p *part) putAll(im *transfer.Importing, t *records.Tx, b *batch) (adds records.Amount, stored int, err error) {
	project, err := p.svc.projects.Project(t, im.Caller, b.lines[0].Project)
	if err != nil {
		return adds, 0, err
	}
	keys := make([]string, len(b.lines))
	for i, in := range b.lines {
		keys[i] = in.ID()
	}
	found, err := p.svc.expectAll(t, project.Incarnation, keys...)
	if err != nil {
		return adds, 0, err
	}
	known, err := p.sessionsOf(im, b)
	if err != nil {
		return adds, 0, err
	}
	var documents []index.Analysed
	for i, in := range b.lines {
		if in.expired(t.Now) {
			continue
		}
		if found[i] != nil && found[i].Damaged {
			return adds, 0, errDamaged(keys[i])
		}
		if found[i].live(t.Now) != nil {
			return adds, 0, fault.Errorf(fault.Conflict, "import_conflict", "memory %q of project %q was created in the meantime",
				keys[i], in.Project)
		}
		added, err := p.put(t, project.Incarnation, in, found[i], known)
		if err != nil {
			return adds, 0, err
		}
		adds.Add(added)
		documents = append(documents, b.documents[i])
	}
	return adds, len(documents), p.svc.index.PutDocuments(t, project.Incarnation, documents...)
}

// put adds the writes of one memory without its documents, over old, which has expired, and returns how much it adds.
func (p *part) put(t *records.Tx, pinc ident.Incarnation, in *line, old *Record, known sessions) (adds records.Amount, err error) {
	old.deleteHistory(t, pinc)
	rec := &Record{Memory: in.Memory, Incarnation: p.svc.db.NewIncarnation(), Sessions: sessionsOf(&in.Memory, known)}
	for i := range in.History {
		v := &in.History[i]
		kept := Record{Memory: v.Memory, Incarnation: rec.Incarnation, Replaced: &v.Replaced,
			Sessions: sessionsOf(&v.Memory, known)}
		value, err := kept.encode()
		if err != nil {
			return adds, err
		}
		rec.History = append(rec.History, keptVersion{Version: v.Version, Bytes: kept.size()})
		t.Put(rec.History[i].record(pinc, in.ID()), value)
	}
	return replacing(old, rec), p.svc.putRecord(t, pinc, rec, old)
}

// sessionsOf returns the incarnations of the sessions that a batch's memories name as sources. Sessions of a file are
// stored before its memories. One that does not exist is left out.
func (p *part) sessionsOf(im *transfer.Importing, b *batch) (sessions, error) {
	known := sessions{}
	note := func(m *Memory) error {
		for _, s := range m.sources() {
			if _, ok := known[s.SessionID]; ok {
				continue
			}
			_, h, _, err := p.svc.transcripts.ReadHead(im.Ctx, im.Caller, b.lines[0].Project, s.SessionID)
			if err != nil {
				return err
			}
			known[s.SessionID] = ident.Incarnation{}
			if h != nil {
				known[s.SessionID] = h.Incarnation
			}
		}
		return nil
	}
	for _, in := range b.lines {
		if err := note(&in.Memory); err != nil {
			return nil, err
		}
		for i := range in.History {
			if err := note(&in.History[i].Memory); err != nil {
				return nil, err
			}
		}
	}
	return known, nil
}

// sessionsOf returns the known sessions that a memory names as sources.
func sessionsOf(m *Memory, known sessions) (in sessions) {
	for _, s := range m.sources() {
		if known[s.SessionID] != (ident.Incarnation{}) {
			if in == nil {
				in = sessions{}
			}
			in[s.SessionID] = known[s.SessionID]
		}
	}
	return in
}
