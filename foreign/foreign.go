// Package foreign reads histories and memories from files that other programs wrote. Read finds out what each file is
// by its content, turns it into conversations and memories, and counts what it leaves out and why.
//
// files.go opens files, archives and compressed files; scan.go cuts a file into JSON values; detect.go recognises
// formats; the other files have one reader each. Readers of logs hold one record at a time; those that need a whole
// conversation, list or text hold that, up to a limit.
package foreign

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Conversation is a stretch of one conversation. A long one comes in several stretches, each of which begins After the
// last record of the one before.
type Conversation struct {
	ID       string // of its session, such as "codex-29e0710d-…"
	Agent    string // "" for the main agent
	Title    string
	Format   string // of its messages, as in Mneme's API
	Metadata map[string]string
	Created  time.Time // zero if the file does not say
	Written  time.Time // when the file was last written; zero if unknown
	// ForkOf is the conversation of which this is a copy up to the record After; "" if it is none.
	ForkOf, After string
	Turns         []Turn
}

// Turn is what follows one message of a person, with that message. Continues says that its beginning was in the stretch
// before.
type Turn struct {
	Continues bool
	Messages  []Message
}

// Message is one message as its provider takes it, or an array of items of OpenAI's Responses API.
type Message struct {
	JSON    []byte
	Sources []string  // ids of the records that it was made of
	At      time.Time // zero if the file does not say
}

// Memory is a memory of another program.
type Memory struct {
	Namespace        []string // nil for a memory of the source's own namespace
	Key              string
	Content          string
	Value            []byte // JSON; nil if none
	Tags             []string
	Metadata         map[string]string
	Created, Updated time.Time
}

// Added is what a sink has added.
type Added struct{ Conversations, Turns, Messages, Memories int }

// Sink takes what was read. An error ends the reading, unless it is a Refusal.
type Sink interface {
	Conversation(*Conversation) (Added, error)
	Memory(source string, m *Memory) (Added, error)
}

// Refusal is the reason why a sink did not take one conversation or one memory.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }

// Reasons why a record is left out.
const (
	SystemPrompt      = "system_prompt"
	HarnessPrompt     = "harness_prompt"
	Meta              = "meta"
	LocalCommand      = "local_command"
	Telemetry         = "telemetry"
	Compaction        = "compaction"
	OtherBranch       = "other_branch"
	Hidden            = "hidden"
	Empty             = "empty"
	EmptyConversation = "empty_conversation"
	Duplicate         = "duplicate"
	APIError          = "api_error"
	ResultWithoutCall = "result_without_call"
	ReasoningAlone    = "reasoning_alone"
	ReasoningUnsigned = "reasoning_unsigned"
	ImageMissing      = "image_missing"
	FileMissing       = "file_missing"
	Encrypted         = "encrypted"
	UnknownRecord     = "unknown_record"
	UnreadableLine    = "unreadable_line"
	TruncatedLine     = "truncated_line"
	TooLarge          = "too_large"
	NotAMemory        = "not_a_memory"
	ImportNotFollowed = "import_not_followed"
	Refused           = "refused"
)

// Counts says what was added and what was left out.
type Counts struct {
	Conversations int            `json:"conversations"`
	Turns         int            `json:"turns"`
	Messages      int            `json:"messages"`
	Memories      int            `json:"memories"`
	LeftOut       map[string]int `json:"left_out"`                  // records by reason
	Unknown       map[string]int `json:"unknown_records,omitempty"` // of unknown_record, by type
	// Replaced counts halves of characters (lone surrogates) that were replaced by U+FFFD.
	Replaced int `json:"replaced_characters,omitempty"`
}

// FileReport is what was read of one file. Problem says why nothing, or not all, was read.
type FileReport struct {
	Name    string `json:"file"`
	Format  string `json:"format,omitempty"`
	Problem string `json:"problem,omitempty"`
	Counts
}

// Report is what was read of all files.
type Report struct {
	Files []FileReport `json:"files"`
	Total Counts       `json:"total"`
}

func (c *Counts) left(reason string, n int) {
	if n > 0 {
		if c.LeftOut == nil {
			c.LeftOut = map[string]int{}
		}
		c.LeftOut[reason] += n
	}
}

// unknown counts a record of an unknown type, or of a known type that cannot be used.
func (c *Counts) unknown(kind string) {
	c.left(UnknownRecord, 1)
	if c.Unknown == nil {
		c.Unknown = map[string]int{}
	}
	if kind = cutText(cmp.Or(kind, "without a type"), 64); len(c.Unknown) < 100 || c.Unknown[kind] > 0 {
		c.Unknown[kind]++
	}
}

func (c *Counts) add(o *Counts) {
	c.Conversations += o.Conversations
	c.Turns += o.Turns
	c.Messages += o.Messages
	c.Memories += o.Memories
	c.Replaced += o.Replaced
	for reason, n := range o.LeftOut {
		c.left(reason, n)
	}
	for kind, n := range o.Unknown {
		if c.Unknown == nil {
			c.Unknown = map[string]int{}
		}
		c.Unknown[kind] += n
	}
}

// reader is the state of one run.
type reader struct {
	sink   Sink
	claude claudeRun
	chat   chatRun
}

// source is one file that is being read.
type source struct {
	*leaf
	run    *reader
	report *FileReport
}

// Options are where and while what is compressed is unpacked.
type Options struct {
	TempDir string       // "" for the system's
	Room    func() error // returns an error if the disk is almost full; may be nil
}

// Read reads files and passes what they hold to the sink. It returns the sink's error, if that is no Refusal, or an error
// of the disk. A file that cannot be read is in the report.
func Read(files []File, sink Sink, options Options) (Report, error) {
	out := Report{Files: []FileReport{}}
	set := &fileSet{options: options}
	defer set.close()
	for _, f := range files {
		if err := set.open(f); err != nil {
			return out, err
		}
	}
	set.recognise()
	run := &reader{sink: sink}
	run.claude.companions(set.leaves)
	slices.SortStableFunc(set.leaves, func(a, b *leaf) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), a.first.Compare(b.first))
	})
	for _, l := range set.leaves {
		report := FileReport{Name: l.Name, Format: l.format, Problem: l.problem}
		if err := run.read(l, &report); err != nil {
			return out, err
		}
		if report.LeftOut == nil {
			report.LeftOut = map[string]int{}
		}
		out.Files = append(out.Files, report)
	}
	if err := run.chat.end(run); err != nil {
		return out, err
	}
	for i := range out.Files {
		out.Total.add(&out.Files[i].Counts)
	}
	out.Total.add(&run.chat.Counts)
	if out.Total.LeftOut == nil {
		out.Total.LeftOut = map[string]int{}
	}
	return out, nil
}

// rank orders formats where one file depends on another of the same run.
func (l *leaf) rank() int {
	return slices.Index(formatNames, l.format)
}

// read reads one file.
func (run *reader) read(l *leaf, report *FileReport) error {
	read := readers[l.format]
	if read == nil {
		return nil
	}
	src := &source{leaf: l, run: run, report: report}
	err := read(src)
	if bad, ok := errors.AsType[*unreadable](err); ok {
		report.Problem = bad.Error()
		return nil
	}
	return err
}

// unreadable is the error of a file whose content is broken.
type unreadable struct{ why string }

func (e *unreadable) Error() string { return e.why }

func unreadablef(format string, args ...any) error { return &unreadable{fmt.Sprintf(format, args...)} }

// The largest stretch of a conversation, in bytes of messages and in messages, and the most messages of one turn in it.
// The first stretch of a session is stored in one commit, each later turn in one of its own.
const (
	maxStretch  = 4 << 20
	maxMessages = 20_000
	maxInTurn   = 2000
)

// builder collects the turns of one conversation and passes them on in stretches.
type builder struct {
	src    *source
	conv   Conversation
	size   int
	count  int
	last   string // source id
	began  bool   // a turn has begun
	asked  bool   // a person has written
	gone   bool   // a stretch was passed on
	failed bool   // the sink has refused it
}

func (src *source) begin(c Conversation) *builder {
	c.Written = src.ModTime
	return &builder{src: src, conv: c}
}

// turn begins a turn. What came before a person's first message belongs to the first turn.
func (b *builder) turn() error {
	if !b.asked && b.began {
		b.asked = true
		return nil
	}
	b.asked = true
	if b.size >= maxStretch || b.count >= maxMessages {
		if err := b.flush(); err != nil {
			return err
		}
	}
	b.conv.Turns = append(b.conv.Turns, Turn{})
	b.began = true
	return nil
}

// add adds a message to the current turn.
func (b *builder) add(m Message) error {
	n := len(b.conv.Turns)
	if b.size >= 4*maxStretch || b.count >= maxMessages || n > 0 && len(b.conv.Turns[n-1].Messages) >= maxInTurn {
		if err := b.flush(); err != nil {
			return err
		}
	}
	if len(b.conv.Turns) == 0 {
		b.conv.Turns = append(b.conv.Turns, Turn{Continues: b.began && b.gone})
		b.began = true
	}
	for i, id := range m.Sources {
		m.Sources[i] = cutID(id)
	}
	t := &b.conv.Turns[len(b.conv.Turns)-1]
	t.Messages = append(t.Messages, m)
	b.size += len(m.JSON)
	b.count++
	b.last = m.Sources[len(m.Sources)-1]
	return nil
}

// flush passes the turns on.
func (b *builder) flush() error {
	b.conv.Turns = slices.DeleteFunc(b.conv.Turns, func(t Turn) bool { return len(t.Messages) == 0 })
	if len(b.conv.Turns) == 0 {
		return nil
	}
	if !b.gone {
		b.conv.ID = cutID(b.conv.ID)
		b.conv.Title = cutText(b.conv.Title, 512)
		maps.DeleteFunc(b.conv.Metadata, func(_, v string) bool { return v == "" })
		for name, v := range b.conv.Metadata {
			b.conv.Metadata[name] = cutText(v, 1024)
		}
	}
	var err error
	if !b.failed {
		var added Added
		added, err = b.src.run.sink.Conversation(&b.conv)
		b.src.report.count(added)
	}
	b.failed, err = b.src.report.refused(b.failed, b.count, "conversation "+b.conv.ID, err)
	b.conv.Turns, b.conv.ForkOf, b.conv.After = nil, "", b.last
	b.size, b.count, b.gone = 0, 0, true
	return err
}

func (r *FileReport) count(a Added) {
	r.Conversations += a.Conversations
	r.Turns += a.Turns
	r.Messages += a.Messages
	r.Memories += a.Memories
}

// refused counts the records of what a sink has refused, and returns any other error.
func (r *FileReport) refused(before bool, records int, what string, err error) (bool, error) {
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok && !before {
		return false, err
	}
	r.left(Refused, records)
	if ok && r.Problem == "" {
		r.Problem = what + ": " + refusal.Reason
	}
	return true, nil
}

// memory passes a memory on.
func (src *source) memory(source string, m Memory) error {
	m.Key = cutID(m.Key)
	for i, name := range m.Namespace {
		m.Namespace[i] = cutID(name)
	}
	if m.Metadata == nil {
		m.Metadata = map[string]string{}
	}
	m.Metadata["path"] = cutText(src.Name, 512)
	added, err := src.run.sink.Memory(source, &m)
	src.report.count(added)
	_, err = src.report.refused(false, 1, "memory "+m.Key, err)
	return err
}
