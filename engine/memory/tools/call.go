package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Call is a model's call. Arguments are an object, or a string that contains one, as OpenAI's models write them.
// SessionID is the model's session, and may be empty.
type Call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	SessionID string          `json:"session_id,omitempty"`
	// MemoryNamespace limits the call to memories in this namespace and below it. It is the default for calls that name no
	// namespace. If empty, it is the session's.
	MemoryNamespace []string `json:"memory_namespace,omitempty"`
	// Sources are the messages that memory_store stores from. The program names them that runs the call, not the model.
	Sources []memory.Source `json:"sources,omitempty"`
	// MinTrust leaves out of memory_recall what is less trusted. The default is the project's setting memory_min_trust.
	MinTrust memory.Trust `json:"min_trust,omitempty"`
}

// Result is what a model gets back: Content as text, and Structured with the same for programs: Stored, Recalled,
// memory.Forgotten or, with IsError, Failure.
type Result struct {
	Content    string `json:"content"`
	Structured any    `json:"structured"`
	IsError    bool   `json:"is_error"`
}

// Stored is the structured result of memory_store. Changed are the changed fields of a memory that existed.
type Stored struct {
	Key       string     `json:"key"`
	Namespace []string   `json:"namespace,omitempty"`
	Category  string     `json:"category"`
	Version   int        `json:"version"`
	Created   bool       `json:"created"`
	Merged    bool       `json:"merged,omitempty"` // into the memory with the key, which says the same
	Changed   []string   `json:"changed,omitempty"`
	ExpiresAt *time.Time `json:"expires_at"`
}

// Shown is a memory as a model sees it. Cut says that Content is incomplete.
type Shown struct {
	Key        string     `json:"key"`
	Namespace  []string   `json:"namespace,omitempty"`
	Content    string     `json:"content"`
	Cut        bool       `json:"cut,omitempty"`
	Category   string     `json:"category"`
	Tags       []string   `json:"tags"`
	SessionID  string     `json:"session_id,omitempty"`
	OccurredAt *time.Time `json:"occurred_at,omitempty"`
	UpdatedAt  time.Time  `json:"updated_at"`
	Trust      string     `json:"trust,omitempty"`
}

// Recalled is the structured result of memory_recall.
type Recalled struct {
	Memories []RecalledMemory `json:"memories"`
}

// RecalledMemory is one memory found.
type RecalledMemory struct {
	Shown
	Score float64 `json:"score"`
}

// Failure is the structured result of a call that failed.
type Failure struct {
	Error struct {
		Code   string             `json:"code"`
		Detail string             `json:"detail"`
		Errors []fault.FieldError `json:"errors,omitempty"`
		// For version_mismatch: the memory's current version, 0 if there is none, and the memory.
		Version *int   `json:"version,omitempty"`
		Memory  *Shown `json:"memory,omitempty"`
	} `json:"error"`
}

// Call executes a model's call in a project. A mistake of the model is a Result with IsError. An error is something
// that the model cannot correct, such as not_found if there is no such project and invalid_id if SessionID is wrong.
func (svc *Service) Call(ctx context.Context, c ident.Caller, once ident.Once, projectID string, call Call) (Result,
	error) {
	if call.SessionID != "" {
		if err := ident.CheckID("session_id", call.SessionID); err != nil {
			return Result{}, err
		}
	}
	if len(call.MemoryNamespace) == 0 {
		var err error
		if call.MemoryNamespace, err = svc.sessions.DefaultNamespace(ctx, c, projectID, call.SessionID); err != nil {
			return Result{}, err
		}
	}
	c, namespace, err := c.In(call.MemoryNamespace)
	if err == nil {
		err = ident.CheckStoredNamespace("memory_namespace", namespace)
	}
	if err != nil {
		return Result{}, err
	}
	set, err := svc.settings(ctx, c, projectID)
	if err != nil {
		return Result{}, err
	}
	args, err := readArguments(call.Arguments)
	if err == nil {
		args.within, args.session = namespace, cmp.Or(call.SessionID, ident.DefaultSession)
	}
	verb := map[string]func() (Result, error){
		nameStore: func() (Result, error) { return svc.store(ctx, c, once, projectID, &call, args) },
		NameRecall: func() (Result, error) {
			return svc.recall(ctx, c, projectID, cmp.Or(call.MinTrust, memory.Trust(set.MemoryMinTrust)), args)
		},
		NameGet:    func() (Result, error) { return svc.get(ctx, c, projectID, args) },
		NameList:   func() (Result, error) { return svc.list(ctx, c, projectID, args) },
		nameForget: func() (Result, error) { return svc.forget(ctx, c, once, projectID, args) },
		nameFiles:  func() (Result, error) { return svc.files(ctx, c, once, projectID, call.SessionID, args) },
	}[call.Name]
	var out Result
	if verb == nil {
		err = fault.Errorf(fault.Invalid, "unknown_tool", "there is no tool %q; there are %s", clipped(call.Name, 64),
			strings.Join([]string{nameStore, NameRecall, NameGet, NameList, nameForget}, ", "))
	} else if err == nil {
		out, err = verb()
	}
	if known, ok := errors.AsType[*fault.Error](err); ok && modelsOwn(known) {
		out = failure(known)
		out.Content = fmt.Sprintf("%s failed, and nothing was changed. %s", clipped(call.Name, 64), known.Detail)
		return out, nil
	}
	return out, err
}

// settings returns a project's settings.
func (svc *Service) settings(ctx context.Context, c ident.Caller, projectID string) (*project.Settings, error) {
	p, err := svc.projects.Find(ctx, c, projectID)
	if err != nil {
		return nil, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return nil, err
	}
	return &set.Settings, nil
}

// failure returns what a model is told about an error.
func failure(known *fault.Error) Result {
	var f Failure
	f.Error.Code, f.Error.Detail, f.Error.Errors = known.Code, known.Detail, known.Fields
	return Result{Content: known.Detail, Structured: f, IsError: true}
}

// modelsOwn reports whether a model that is told about the error can correct it.
func modelsOwn(e *fault.Error) bool {
	switch e.Kind {
	case fault.Invalid:
		return e.Code != "idempotency_key_reused" // this one is the client's error
	case fault.TooLarge:
		return true
	case fault.Conflict:
		return e.Code == memory.Damaged
	case fault.NoSpace:
		return e.Code == "quota_exceeded"
	}
	return false
}

// store stores a memory or, if its key exists, changes the fields in the arguments.
func (svc *Service) store(ctx context.Context, c ident.Caller, once ident.Once, projectID string, call *Call,
	args *arguments) (out Result, err error) {
	key := args.key()
	start := memory.Spec{Key: key, Namespace: args.namespace(), SessionID: call.SessionID, Origin: memory.OriginTool,
		Sources: call.Sources}
	patch := args.patch(svc.db.Now())
	expected := memory.Precondition{Version: args.version()}
	if err := args.done(); err != nil {
		return out, err
	}
	m, err := svc.memories.Merge(ctx, c, once, projectID, patch, expected, start)
	if err != nil {
		return svc.mismatch(ctx, c, projectID, memory.ID(start.Namespace, start.Key), err)
	}
	var text strings.Builder
	switch {
	case m.Merged:
		fmt.Fprintf(&text, "Memory %q (%s) says the same: this was merged into it, and it is at version %d. Use that key.",
			m.Key, m.Category, m.Version)
	case m.Created:
		fmt.Fprintf(&text, "Stored memory %q (%s).", m.Key, m.Category)
	case len(m.Changed) == 0:
		fmt.Fprintf(&text, "Memory %q (%s) says this already: it stays version %d.", m.Key, m.Category, m.Version)
	default:
		fmt.Fprintf(&text, "Changed %s of memory %q (%s): this is version %d.", strings.Join(m.Changed, ", "), m.Key,
			m.Category, m.Version)
	}
	if key == "" && !m.Merged {
		fmt.Fprintf(&text, " Use the key %q for it from now on.", m.Key)
	}
	if m.ExpiresAt != nil {
		fmt.Fprintf(&text, " It expires on %s.", m.ExpiresAt.Format("2006-01-02 at 15:04 UTC"))
	}
	out.Content = text.String()
	out.Structured = Stored{m.Key, m.Namespace, m.Category, m.Version, m.Created, m.Merged, m.Changed, m.ExpiresAt}
	return out, nil
}

// mismatch tells a model whose if_version was wrong what the memory says now, so that it can merge. It returns other
// errors unchanged.
func (svc *Service) mismatch(ctx context.Context, c ident.Caller, projectID, id string, err error) (Result, error) {
	known, ok := errors.AsType[*fault.Error](err)
	if !ok || known.Code != "version_mismatch" {
		return Result{}, err
	}
	f := Failure{}
	f.Error.Code, f.Error.Detail, f.Error.Version = known.Code, known.Detail, &known.Current.Version
	text := "Nothing was changed. " + known.Detail
	m, err := svc.memories.Get(ctx, c, projectID, id)
	if err == nil {
		now, room := shown(&m), 0
		now.clip(maxContent, &room)
		f.Error.Version, f.Error.Memory = &m.Version, &now
		text += fmt.Sprintf(" Version %d says: %s", m.Version, now.Content)
	} else if !fault.IsNotFound(err) {
		return Result{}, err
	}
	return Result{Content: text, Structured: f, IsError: true}, nil
}

func (svc *Service) forget(ctx context.Context, c ident.Caller, once ident.Once, projectID string, args *arguments) (
	out Result, err error) {
	key := args.key()
	if key == "" {
		args.fault("key", "required", "name the memory to forget; memory_recall shows the keys")
	}
	id := memory.ID(args.namespace(), key)
	expected := memory.Precondition{Version: args.version()}
	if err := args.done(); err != nil {
		return out, err
	}
	done, err := svc.memories.ForgetIf(ctx, c, once, projectID, id, expected)
	if err != nil {
		return svc.mismatch(ctx, c, projectID, id, err)
	}
	out.Structured = done
	out.Content = fmt.Sprintf("Forgot memory %q.", key)
	if !done.Forgotten {
		out.Content = fmt.Sprintf("There is no memory %q, so nothing was forgotten. "+
			"memory_recall shows the keys that exist.", key)
	}
	return out, nil
}

// maxLimit limits the memories that a model gets at once.
const maxLimit = 50

func (svc *Service) recall(ctx context.Context, c ident.Caller, projectID string, least memory.Trust,
	args *arguments) (out Result, err error) {
	now := svc.db.Now()
	q := recall.Query{Query: args.text("query"), Since: args.bound("since", now, false),
		Until: args.bound("until", now, true), Category: args.category(), Tags: args.texts("tags"),
		Namespace: args.namespace(), Limit: args.limit(recall.DefaultLimit), MinTrust: least, Reader: &args.session}
	if strings.TrimSpace(q.Query) == "" && q.Since == "" && q.Until == "" && len(args.faults) == 0 {
		args.fault("query", "required",
			`give words to search for, or "*" for the most recent memories, or a time in since or until`)
	}
	if err := args.done(); err != nil {
		return out, err
	}
	found, err := svc.recalls.Recall(ctx, c, projectID, q)
	if err != nil {
		return out, err
	}
	memories := recalled(found.Data)
	out.Structured = Recalled{memories}
	out.Content = recallText(memories, len(found.Data))
	if found.Incomplete {
		out.Content += "Not all memories were looked at: give words to search for, or an earlier until, to find more.\n"
	}
	return out, nil
}

// The limits of recalled content that a model gets, in bytes: of one memory, and of all.
const (
	maxContent  = 4 << 10
	maxContents = 32 << 10
)

// recalled shortens hits to what a model can read. It leaves out the last ones if they exceed the limit for all.
func recalled(hits []recall.Hit) []RecalledMemory {
	out := []RecalledMemory{}
	room := maxContents
	for _, h := range hits {
		m := RecalledMemory{Shown{Key: h.Key, Namespace: h.Namespace, Content: h.Content, Category: h.Category,
			Tags: h.Tags, SessionID: h.SessionID, OccurredAt: h.OccurredAt, UpdatedAt: h.CreatedAt, Trust: string(h.Trust)}, h.Score}
		m.clip(maxContent, &room)
		if room < 0 && len(out) > 0 {
			break
		}
		out = append(out, m)
	}
	return out
}

// recallText returns the result of a recall as text. found is the number of memories before recalled left some out.
func recallText(memories []RecalledMemory, found int) string {
	if len(memories) == 0 {
		return "No memory matches. Try other words or fewer filters, " +
			`or the query "*" for the most recent memories.` + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d found:\n", found)
	for i := range memories {
		memories[i].say(&b, i+1)
	}
	if len(memories) < found {
		fmt.Fprintf(&b, "%d more were left out for their length; ask for fewer, or more exactly.\n",
			found-len(memories))
	}
	return b.String()
}
