package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/foreign"
)

// fileType is the media type of files of other programs: one file, or several in a tar archive.
const fileType = "application/octet-stream"

// importForeign imports files of other programs. It fails with busy, disk_full and body_too_large.
func (s *Server) importForeign(ctx context.Context, c *call[rawBody]) (foreign.Report, error) {
	spooled := lease{of: s.spools, tenant: c.caller.Tenant}
	if !spooled.grow(1) {
		return foreign.Report{}, busy("too many imports are running")
	}
	defer spooled.release()
	sink := &foreignSink{ctx: ctx, engine: s.engine, caller: c.caller, project: c.path("project"),
		namespace: c.queries("namespace"), made: map[string]bool{}}
	var err error
	if sink.dryRun, err = c.truth("dry_run"); err != nil {
		return foreign.Report{}, err
	}
	if err := ident.CheckNamespace("namespace", sink.namespace); err != nil {
		return foreign.Report{}, err
	}
	if _, err := s.engine.Projects.Get(ctx, c.caller, sink.project); err != nil {
		return foreign.Report{}, err
	}
	transfer := s.engine.Transfer
	body, err := transfer.Spool(ctx, c.bodyStream())
	if err != nil {
		return foreign.Report{}, err
	}
	defer func() { _ = body.Close() }()
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return foreign.Report{}, err
	}
	name := cmp.Or(strings.TrimPrefix(path.Clean("/"+c.query("name")), "/"), "file")
	file := foreign.File{ReaderAt: body, Name: name, Size: size, Named: true}
	return foreign.Read([]foreign.File{file}, sink, foreign.Options{TempDir: transfer.SpoolDir(), Room: transfer.Room})
}

// foreignSink stores what is read from files of other programs.
type foreignSink struct {
	ctx       context.Context
	engine    *engine.Engine
	caller    ident.Caller
	project   string
	namespace []string // of the memories, instead of the source's own; nil if it is that
	dryRun    bool
	made      map[string]bool // conversations that a dry run would have made
}

func (s *foreignSink) Conversation(c *foreign.Conversation) (foreign.Added, error) {
	req := session.MergeRequest{Session: session.Spec{ID: c.ID, Agent: c.Agent, Title: c.Title, Metadata: ident.Metadata{}},
		Created: c.Created, ForkOf: c.ForkOf, After: c.After, DryRun: s.dryRun}
	for name, text := range c.Metadata {
		req.Session.Metadata[name], _ = json.Marshal(text)
	}
	whole := foreign.Added{}
	for _, t := range c.Turns {
		turn := session.FileTurn{Continues: t.Continues}
		for _, m := range t.Messages {
			at := m.At
			if at.IsZero() && c.Created.IsZero() {
				at = c.Written
			}
			turn.Messages = append(turn.Messages, session.FileMessage{Format: c.Format, CreatedAt: at, SourceIDs: m.Sources,
				Message: m.JSON})
		}
		whole.Messages += len(t.Messages)
		if !t.Continues {
			whole.Turns++
		}
		req.Turns = append(req.Turns, turn)
	}
	if s.made[c.ID] || c.ForkOf != "" && s.made[c.ForkOf] { // so there is nothing to compare it with
		if !s.made[c.ID] {
			s.made[c.ID], whole.Conversations = true, 1
		}
		return whole, nil
	}
	out, err := s.engine.Sessions.Merge(s.ctx, s.caller, s.project, req)
	added := foreign.Added{Turns: out.Turns, Messages: out.Messages}
	if out.Made {
		added.Conversations = 1
		if s.dryRun {
			s.made[c.ID] = true
		}
	}
	if err != nil {
		return foreign.Added{}, refusal(err)
	}
	return added, nil
}

// refusal returns a foreign.Refusal for what is wrong with one conversation or one memory only.
func refusal(err error) error {
	if known, ok := fault.As(err); ok {
		switch known.Kind {
		case fault.Invalid, fault.TooLarge, fault.Conflict, fault.NotFound:
			return &foreign.Refusal{Reason: known.Error()}
		}
	}
	return err
}

// namespaceOf returns the namespace of a memory: its own or, below the one that was asked for, what its own has besides
// the name of the program.
func (s *foreignSink) namespaceOf(source string, own []string) []string {
	usual := []string{"import", source}
	if own == nil {
		own = usual
	}
	if s.namespace == nil {
		return own
	}
	if len(own) >= 2 && slices.Equal(own[:2], usual) {
		return slices.Concat(s.namespace, own[2:])
	}
	return s.namespace
}

func (s *foreignSink) Memory(source string, m *foreign.Memory) (foreign.Added, error) {
	if err := s.ctx.Err(); err != nil {
		return foreign.Added{}, err
	}
	about := ident.Metadata{}
	for name, text := range m.Metadata {
		if text != "" {
			about[name], _ = json.Marshal(text)
		}
	}
	spec := memory.Spec{Key: m.Key, Namespace: s.namespaceOf(source, m.Namespace), Content: m.Content, Tags: m.Tags, Value: m.Value,
		Source: source, Metadata: about, Origin: memory.OriginImport, Created: m.Created, Updated: m.Updated}
	if at, now := cmp.Or(m.Updated, m.Created), time.Now(); at.After(now) {
		spec.Created, spec.Updated = time.Time{}, time.Time{}
	}
	memories := s.engine.Memories
	old, err := memories.Get(s.ctx, s.caller, s.project, memory.ID(spec.Namespace, spec.Key))
	switch {
	case err == nil && sameMemory(&old, &spec):
		return foreign.Added{}, nil
	case err != nil && !fault.IsNotFound(err):
		return foreign.Added{}, refusal(err)
	case s.dryRun:
		return foreign.Added{Memories: 1}, nil
	}
	if _, _, err := memories.Store(s.ctx, s.caller, ident.Once{}, s.project, spec); err != nil {
		return foreign.Added{}, refusal(err)
	}
	return foreign.Added{Memories: 1}, nil
}

// sameMemory reports whether a stored memory says what an imported one does.
func sameMemory(old *memory.Memory, spec *memory.Spec) bool {
	var value bytes.Buffer
	if len(spec.Value) > 0 && json.Compact(&value, spec.Value) != nil {
		return false
	}
	var tags []string
	for _, tag := range spec.Tags {
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return old.Content == spec.Content && bytes.Equal(old.Value, value.Bytes()) && slices.Equal(old.Tags, tags)
}
