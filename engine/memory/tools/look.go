package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Got is the structured result of memory_get. If Content is cut, NextOffset is where the rest begins, in bytes.
type Got struct {
	Shown
	Metadata   map[string]json.RawMessage `json:"metadata,omitempty"`
	Value      json.RawMessage            `json:"value,omitempty"`
	Version    int                        `json:"version"`
	ExpiresAt  *time.Time                 `json:"expires_at"`
	NextOffset *int                       `json:"next_offset,omitempty"`
}

// Listed is the structured result of memory_list. NextCursor continues the list.
type Listed struct {
	Memories   []Shown `json:"memories"`
	NextCursor *string `json:"next_cursor"`
}

// get shows one memory by its key.
func (svc *Service) get(ctx context.Context, c ident.Caller, projectID string, args *arguments) (Result, error) {
	key := args.key()
	if key == "" {
		args.fault("key", "required", "name the memory to show; memory_list and memory_recall show the keys")
	}
	id, offset := memory.ID(args.namespace(), key), 0
	if n := args.number("offset"); n != nil {
		offset = int(max(0, min(*n, 1<<30)))
	}
	if err := args.done(); err != nil {
		return Result{}, err
	}
	m, err := svc.memories.Get(ctx, c, projectID, id)
	if fault.IsNotFound(err) {
		return failure(&fault.Error{Code: "not_found", Detail: fmt.Sprintf(
			"There is no memory %q. memory_list and memory_recall show the keys that exist.", key)}), nil
	}
	if err != nil {
		return Result{}, err
	}
	offset = min(offset, len(m.Content))
	for offset > 0 && offset < len(m.Content) && !utf8.RuneStart(m.Content[offset]) {
		offset--
	}
	whole := len(m.Content)
	m.Content = m.Content[offset:]
	got := Got{Shown: shown(&m), Metadata: m.Metadata, Value: m.Value, Version: m.Version, ExpiresAt: m.ExpiresAt}
	room := 0
	got.clip(maxContents, &room)
	out := Result{Content: got.Content}
	if got.Cut {
		next := offset + len(got.Content)
		got.NextOffset = &next
		out.Content += fmt.Sprintf("\n… (cut here; the rest of %d bytes begins at offset %d)", whole, next)
	}
	out.Structured = got
	return out, nil
}

// list shows memories by time, latest first.
func (svc *Service) list(ctx context.Context, c ident.Caller, projectID string, args *arguments) (out Result, err error) {
	now := svc.db.Now()
	f := memory.Filter{Category: args.category(), Tags: args.texts("tags"), Namespace: args.namespace(),
		Since: args.bound("since", now, false), Until: args.bound("until", now, true), Reader: &args.session}
	page := records.Page{Limit: args.limit(20), Cursor: args.text("cursor")}
	if err := args.done(); err != nil {
		return out, err
	}
	list, err := svc.memories.List(ctx, c, projectID, f, memory.Recent, page)
	if err != nil {
		return out, err
	}
	listed := Listed{Memories: []Shown{}, NextCursor: list.NextCursor}
	var b strings.Builder
	for i := range list.Data {
		s, room := shown(&list.Data[i]), 0
		s.clip(maxContents/maxLimit, &room)
		s.say(&b, i+1)
		listed.Memories = append(listed.Memories, s)
	}
	switch {
	case listed.NextCursor != nil:
		fmt.Fprintf(&b, "There may be more: call memory_list again with the cursor %q.\n", *listed.NextCursor)
	case len(listed.Memories) == 0:
		b.WriteString("There is no such memory.\n")
	}
	return Result{Content: b.String(), Structured: listed}, nil
}
