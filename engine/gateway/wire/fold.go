package wire

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
)

// State is the state of a stream after an event.
type State uint8

const (
	Going  State = iota
	Ended        // the event is the stream's last, and the answer is whole
	Failed       // the event is an error of the provider's
)

// Limits of a folded answer. A longer stream is not an error, but its answer is not kept.
const (
	maxBlocks = 1000
	maxFolded = 16 << 20 // bytes
)

// ErrTooLarge says that an answer has more than 1,000 blocks or 16 MiB.
var ErrTooLarge = errors.New("the answer has more than 1,000 blocks or 16 MiB, so it is not kept")

// Folder folds a stream into a Reply. The zero value is not ready; New makes one.
type Folder struct {
	reply   Reply
	state   State
	failed  *Failure
	err     error // why the answer is not kept, although the stream continues
	folded  int
	begun   bool // part of the answer has arrived
	message object
	blocks  []*block          // Anthropic's, by index
	items   []json.RawMessage // of Responses, as each of them was done
	usage   fields            // Anthropic's, which comes in two parts
	split   halves
	stopped bool // the reason for the end of the answer has arrived
}

// New makes a folder for a protocol's streams.
func New(f chat.Format) *Folder {
	return &Folder{reply: Reply{Format: f, Choices: 1}}
}

// Begun reports whether any part of the answer has arrived.
func (f *Folder) Begun() bool { return f.begun }

// State returns the state of the stream.
func (f *Folder) State() State { return f.state }

// Add folds the next event and returns the state of the stream. It ignores unknown events and whatever follows the last
// event.
func (f *Folder) Add(e Event) State {
	if f.state != Going || len(e.Data) == 0 {
		return f.state
	}
	if string(e.Data) == "[DONE]" {
		if f.reply.Format == chat.OpenAIChat && f.stopped {
			f.state = Ended
		}
		return f.state
	}
	if f.folded += len(e.Data); f.folded > maxFolded {
		f.fail(ErrTooLarge)
	}
	var o fields
	if err := json.Unmarshal(f.split.join(e.Data), &o); err != nil {
		f.fail(fmt.Errorf("an event of the stream is no JSON object: %w", err))
		return f.state
	}
	switch f.reply.Format {
	case chat.AnthropicMessages:
		f.messages(o)
	case chat.OpenAIResponses:
		f.responses(o)
	default:
		f.chat(o)
	}
	return f.state
}

// End returns the state of a stream that has ended without an error. Some servers of Chat Completions send no [DONE]:
// their answer is whole if it says why it ends.
func (f *Folder) End() State {
	if f.state == Going && f.reply.Format == chat.OpenAIChat && f.stopped {
		f.state = Ended
	}
	return f.state
}

// Reply returns the whole answer once the stream has Ended. Before that, or if the answer could not be folded, it returns
// an error: a Failure, ErrTooLarge, or what was wrong with an event.
func (f *Folder) Reply() (*Reply, error) {
	switch {
	case f.state == Failed:
		return nil, f.failed
	case f.err != nil:
		return nil, f.err
	case f.state != Ended:
		return nil, errors.New("the stream ended before its last event")
	}
	if f.reply.Messages == nil {
		if err := f.finish(); err != nil {
			return nil, err
		}
	}
	return &f.reply, nil
}

// Usage returns the usage that the provider has reported so far.
func (f *Folder) Usage() Usage { return f.reply.Usage }

func (f *Folder) finish() error {
	if f.reply.Format == chat.AnthropicMessages {
		content, err := joinBlocks(f.blocks)
		if err != nil {
			return err
		}
		f.reply.Messages = []json.RawMessage{assistant(content)}
		return nil
	}
	if f.message == nil {
		return errors.New("the stream had no message")
	}
	if _, ok := f.message["role"]; !ok {
		f.message["role"] = "assistant"
	}
	if t, ok := f.message["content"].(*text); ok && t.Len() == 0 && f.message["tool_calls"] != nil {
		f.message["content"] = nil // as a whole answer has it
	}
	m, err := encode(f.message)
	f.reply.Messages = []json.RawMessage{m}
	return err
}

// fail records why the answer is not kept and releases what was folded.
func (f *Folder) fail(err error) {
	if f.err == nil {
		f.err = err
	}
	f.message, f.blocks, f.items = nil, nil, nil
}

func (f *Folder) broken(o fields) {
	if f.failed = failure(o); f.failed == nil {
		f.failed = &Failure{Type: o.text("type"), Code: o.text("code"), Message: o.text("message")}
	}
	f.state = Failed
}

// chat folds a chunk of Chat Completions. The chunk with the usage has no choices and may come last.
func (f *Folder) chat(o fields) {
	if o.object("error") != nil {
		f.broken(o)
		return
	}
	if id := o.text("id"); id != "" {
		f.reply.ID, f.reply.Model = id, o.text("model")
	}
	if u := usageOf(chat.OpenAIChat, o["usage"]); u.Known() {
		f.reply.Usage, f.reply.rawUsage = u, o["usage"]
	}
	for _, raw := range o.list("choices") {
		var c fields
		if json.Unmarshal(raw, &c) != nil {
			continue
		}
		if index := c.number("index"); index != 0 {
			f.reply.Choices = max(f.reply.Choices, int(index)+1)
			continue
		}
		if stop := c.text("finish_reason"); stop != "" {
			f.reply.Stop, f.stopped = stop, true
		}
		var delta object
		if json.Unmarshal(c["delta"], &delta) != nil || len(delta) == 0 {
			continue
		}
		f.begun = true
		if f.err != nil {
			continue
		}
		if f.message == nil {
			f.message = object{}
		}
		if err := f.message.accumulate(delta); err != nil {
			f.fail(err)
		}
	}
}

// messages folds an event of Anthropic's Messages.
func (f *Folder) messages(o fields) {
	switch o.text("type") {
	case "message_start":
		m := o.object("message")
		f.reply.ID, f.reply.Model = m.text("id"), m.text("model")
		f.spent(m.object("usage"))
	case "content_block_start":
		f.begun = true
		f.block(o.number("index"), func(*block) error { return nil }, o["content_block"])
	case "content_block_delta":
		f.block(o.number("index"), func(b *block) error { return b.add(o.object("delta")) }, nil)
	case "message_delta":
		if stop := o.object("delta").text("stop_reason"); stop != "" {
			f.reply.Stop, f.stopped = stop, true
		}
		f.spent(o.object("usage"))
	case "message_stop":
		if f.stopped {
			f.state = Ended
		}
	case "error":
		f.broken(o)
	}
}

// spent adds a part of Anthropic's usage. Later numbers replace earlier ones.
func (f *Folder) spent(part fields) {
	if f.usage == nil {
		f.usage = fields{}
	}
	for name, value := range part {
		if string(value) != "null" {
			f.usage[name] = value
		}
	}
	raw, err := json.Marshal(f.usage)
	if err != nil {
		return
	}
	f.reply.Usage, f.reply.rawUsage = usageOf(chat.AnthropicMessages, raw), raw
}

// block changes the content block at an index, or starts it if start is not nil.
func (f *Folder) block(index int64, change func(*block) error, start json.RawMessage) {
	if f.err != nil {
		return
	}
	if index < 0 || index >= maxBlocks {
		f.fail(ErrTooLarge)
		return
	}
	for int64(len(f.blocks)) <= index {
		f.blocks = append(f.blocks, nil)
	}
	if start != nil {
		b := new(block)
		if err := json.Unmarshal(start, &b.fields); err != nil {
			f.fail(fmt.Errorf("a content block is no JSON object: %w", err))
			return
		}
		f.blocks[index] = b
	}
	if f.blocks[index] == nil {
		f.fail(fmt.Errorf("a part of the content block %d came before the block", index))
		return
	}
	if err := change(f.blocks[index]); err != nil {
		f.fail(err)
	}
}

// responses folds an event of OpenAI's Responses. The last event has the whole answer. Servers that leave its output empty
// have sent each item before.
func (f *Folder) responses(o fields) {
	switch o.text("type") {
	case "response.output_item.added":
		f.begun = true
	case "response.output_item.done":
		if len(f.items) >= maxBlocks {
			f.fail(ErrTooLarge)
		}
		if f.err == nil {
			f.items = append(f.items, o["item"])
		}
	case "response.completed", "response.incomplete":
		f.state = Ended
		body := o.object("response")
		f.reply.ID, f.reply.Model = body.text("id"), body.text("model")
		f.reply.Usage, f.reply.rawUsage = usageOf(chat.OpenAIResponses, body["usage"]), body["usage"]
		if f.reply.Stop = body.text("status"); f.reply.Stop == "" {
			f.reply.Stop = "completed"
		}
		if details := body.object("incomplete_details"); details != nil {
			f.reply.Stop = details.text("reason")
		}
		if f.reply.Messages = body.list("output"); len(f.reply.Messages) == 0 {
			f.reply.Messages = f.items
		}
		if len(f.reply.Messages) > maxBlocks {
			f.fail(ErrTooLarge)
		}
		if len(f.reply.Messages) == 0 && f.err == nil {
			f.fail(errors.New("the response has no output"))
		}
	case "response.failed", "response.cancelled":
		body := o.object("response")
		f.broken(body)
	case "error":
		f.broken(o)
	}
}
