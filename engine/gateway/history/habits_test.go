package history_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// talk is a whole conversation: messages as a provider and a client exchange them, without system messages.
type talk []chat.Message

// made generates conversations with questions, loops of tool calls, several calls at once and long texts. The first
// messages and many answers are the same in all of them.
func made(r *rand.Rand, n int) (out []talk) {
	for range n {
		t := talk{{Role: plan.RoleUser, Text: "Hi"}}
		for turn := range 3 + r.IntN(6) {
			if turn > 0 {
				t = append(t, chat.Message{Role: plan.RoleUser, Text: pick(r, "Yes", "Go on", fmt.Sprint("Question ", r.IntN(1000)))})
			}
			for step := range r.IntN(8) * r.IntN(2) {
				call := chat.Message{Role: plan.RoleAssistant, Kind: plan.KindCall, Text: pick(r, "", "I look.")}
				for c := range 1 + r.IntN(3) {
					call.Calls = append(call.Calls, chat.Call{ID: fmt.Sprintf("call_%d_%d_%d_%d", turn, step, c, r.IntN(1e6)), Name: "look",
						Arguments: fmt.Sprintf(`{"b":%d,"a":["x",1.50]}`, r.IntN(10))})
				}
				t = append(t, call)
				for _, c := range call.Calls {
					t = append(t, chat.Message{Role: plan.RoleTool, CallID: c.ID, Text: pick(r, "ok", strings.Repeat("row ", r.IntN(50)+1))})
				}
			}
			t = append(t, chat.Message{Role: plan.RoleAssistant, Text: pick(r, "Done.", fmt.Sprint("Answer ", r.IntN(1000)))})
		}
		out = append(out, t)
	}
	return out
}

func pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

// recorded returns the conversations of the transcripts in MNEME_TESTDATA, or none if it is unset.
func recorded(t *testing.T) (out []talk) {
	file, err := os.Open(filepath.Join(os.Getenv("MNEME_TESTDATA"), "tau-airline-50.jsonl"))
	if err != nil {
		t.Log("MNEME_TESTDATA names no folder of transcripts: only made conversations are used")
		return nil
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var in struct{ Messages []json.RawMessage }
		if err := json.Unmarshal(lines.Bytes(), &in); err != nil {
			t.Fatal(err)
		}
		parsed, _, bad := chat.Parse(chat.OpenAIChat, in.Messages)
		if len(bad) > 0 {
			t.Fatal(bad)
		}
		var one talk
		for i := range parsed {
			one = append(one, parsed[i].Message)
		}
		for one[len(one)-1].Role != plan.RoleAssistant || len(one[len(one)-1].Calls) > 0 {
			one = one[:len(one)-1]
		}
		out = append(out, one)
	}
	return out
}

// in returns a conversation in a format, one element per message.
func (t talk) in(f chat.Format) (out []json.RawMessage) {
	for i := range t {
		m := t[i]
		m.Raw = nil
		if raw := chat.JSON(f, &m, chat.Options{}); raw[0] == '[' {
			out = append(out, raw[1:len(raw)-1]) // items of Responses
		} else {
			out = append(out, json.RawMessage(raw))
		}
	}
	return out
}

// habit is how a client changes its history before it sends it. The random source r varies it.
type habit struct {
	name string
	send func(r *rand.Rand, f chat.Format, history []json.RawMessage) []json.RawMessage
	// again is the probability that a reply is lost on its way to the client, which then asks again.
	again float64
	trims bool // it leaves messages out
}

var habits = []habit{
	{name: "full", send: func(_ *rand.Rand, _ chat.Format, h []json.RawMessage) []json.RawMessage { return h }},
	{name: "sugar", send: sugar},
	{name: "arguments", send: rewritten},
	{name: "trims", trims: true, send: func(_ *rand.Rand, f chat.Format, h []json.RawMessage) []json.RawMessage {
		return trimmed(f, h, 10)
	}},
	{name: "summarises", trims: true, send: func(r *rand.Rand, f chat.Format, h []json.RawMessage) []json.RawMessage {
		if len(h) < 12 {
			return h
		}
		return slices.Concat(talk{{Role: plan.RoleUser, Text: fmt.Sprint("Summary ", r.IntN(10))}}.in(f), trimmed(f, h, 8))
	}},
	{name: "retries", again: .2, send: func(_ *rand.Rand, _ chat.Format, h []json.RawMessage) []json.RawMessage { return h }},
}

// trimmed returns about the last n messages. The first one is never a result, because its call would be missing.
func trimmed(f chat.Format, h []json.RawMessage, n int) []json.RawMessage {
	h = h[max(0, len(h)-n):]
	for {
		parsed, _, _ := chat.Parse(f, elements(h[:1]))
		if parsed[0].Role != plan.RoleTool {
			return h
		}
		h = h[1:]
	}
}

// sugar writes texts as blocks or strings, moves cache marks and adds what SDKs add.
func sugar(r *rand.Rand, f chat.Format, h []json.RawMessage) []json.RawMessage {
	return each(h, func(i int, m map[string]any) {
		kind := map[chat.Format]string{chat.OpenAIChat: "text", chat.AnthropicMessages: "text", chat.OpenAIResponses: "input_text"}[f]
		if m["role"] == "assistant" && f == chat.OpenAIResponses {
			kind = "output_text"
		}
		if text, ok := m["content"].(string); ok && (r.IntN(2) == 0 || i == len(h)-1) && m["role"] != nil {
			block := map[string]any{"type": kind, "text": text}
			if i == len(h)-1 && f != chat.OpenAIResponses {
				block["cache_control"] = map[string]any{"type": "ephemeral"}
			}
			m["content"] = []any{block}
		}
		if calls, ok := m["tool_calls"].([]any); ok {
			for n, c := range calls {
				c.(map[string]any)["index"] = n
			}
			m["refusal"] = nil
			m["annotations"] = []any{}
		}
		if f == chat.OpenAIResponses {
			m["status"], m["id"] = "completed", fmt.Sprint("item_", i, "_", r.Uint64())
		}
	})
}

// rewritten writes the arguments of calls with different white space and member order.
func rewritten(_ *rand.Rand, _ chat.Format, h []json.RawMessage) []json.RawMessage {
	anew := func(o map[string]any, name string) {
		var v any
		if s, ok := o[name].(string); ok && json.Unmarshal([]byte(s), &v) == nil {
			b, _ := json.MarshalIndent(v, "", "  ")
			o[name] = string(b)
		}
	}
	return each(h, func(_ int, m map[string]any) {
		anew(m, "arguments")
		calls, _ := m["tool_calls"].([]any)
		for _, c := range calls {
			anew(c.(map[string]any)["function"].(map[string]any), "arguments")
		}
	})
}

// each changes the elements of a history. One message may be several items.
func each(h []json.RawMessage, change func(i int, m map[string]any)) (out []json.RawMessage) {
	for i, raw := range h {
		var list []map[string]any
		if err := json.Unmarshal(slices.Concat([]byte{'['}, raw, []byte{']'}), &list); err != nil {
			panic(err)
		}
		for _, m := range list {
			change(i, m)
		}
		b, _ := json.Marshal(list)
		out = append(out, b[1:len(b)-1])
	}
	return out
}

// elements splits messages into the elements that are posted.
func elements(h []json.RawMessage) (out []json.RawMessage) {
	if err := json.Unmarshal(slices.Concat([]byte{'['}, bytes.Join(raw(h), []byte{','}), []byte{']'}), &out); err != nil {
		panic(err)
	}
	return out
}

func raw(h []json.RawMessage) (out [][]byte) {
	for _, m := range h {
		out = append(out, m)
	}
	return out
}

// person is a client that holds a conversation according to a habit.
type person struct {
	*enginetest.Kit
	habit
	format         chat.Format
	session, agent string
	messages       []json.RawMessage // of the whole conversation
	said           []align.Hash
	at             int // the number said so far
	r              *rand.Rand
	cases          map[align.Case]int
	lives          string // the session that keeps the conversation
	main           bool   // others use the session too
}

func newPerson(k *enginetest.Kit, h habit, f chat.Format, session, agent string, t talk, r *rand.Rand, cases map[align.Case]int) *person {
	p := &person{Kit: k, habit: h, format: f, session: session, agent: agent, messages: t.in(f), r: r, cases: cases, lives: session}
	for i := range p.messages {
		parsed, _, bad := chat.Parse(f, elements(p.messages[i:i+1]))
		if len(bad) > 0 || len(parsed) != 1 {
			k.Fatal(bad, len(parsed), string(p.messages[i]))
		}
		p.said = append(p.said, align.Of(&parsed[0].Message))
	}
	return p
}

// step makes the next call of the model and checks that the session holds what was said. It returns false at the end.
func (p *person) step() bool {
	p.Helper()
	for p.at < len(p.messages) && !p.replies(p.at) {
		p.at++
	}
	if p.at == len(p.messages) {
		return false
	}
	sent := p.send(p.r, p.format, p.messages[:p.at])
	for {
		lost := p.r.Float64() < p.again
		x, err := p.Dialogues.Begin(p.Context(), p.Admin, ident.DefaultProject, history.Ask{Session: p.session, Agent: p.agent, Resend: true,
			Format: p.format, Messages: elements(append([]json.RawMessage{[]byte(`{"role":"system","content":"Be kind."}`)}, sent...))})
		if err != nil {
			p.Fatal(err)
		}
		p.cases[x.Match.Case]++
		reply := p.messages[p.at]
		if lost && p.r.IntN(2) == 0 { // the model never says the same thing twice
			reply = talk{{Role: plan.RoleAssistant, Text: fmt.Sprint("Another answer ", p.r.IntN(1000))}}.in(p.format)[0]
		}
		s, err := p.Dialogues.Commit(p.Context(), p.Admin, ident.DefaultProject, x, history.Reply{Messages: elements([]json.RawMessage{reply})})
		if err != nil {
			p.Fatal(err)
		}
		if p.lives == "" && s.Turn > 0 {
			p.lives = s.Session
		}
		if s.Reason != "" || s.Session != p.lives && s.Turn > 0 || s.Open == (s.Turn > 0) {
			p.Fatalf("%s: call %d is %+v and became %+v", p.name, p.at, x.Match, s)
		}
		if lost {
			continue
		}
		p.at++
		if s.Turn > 0 {
			p.holds()
		}
		return true
	}
}

func (p *person) replies(i int) bool {
	parsed, _, _ := chat.Parse(p.format, elements(p.messages[i:i+1]))
	return parsed[0].Role == plan.RoleAssistant
}

// holds checks that the session holds what was said, message by message.
func (p *person) holds() {
	p.Helper()
	var got []align.Hash
	page := records.Page{Limit: 1000}
	for more := true; more; {
		list, err := p.Sessions.ListMessages(p.Context(), p.Admin, ident.DefaultProject, p.lives, page, session.MessageOrder{})
		if err != nil {
			p.Fatal(err)
		}
		for i := range list.Data {
			if d := list.Data[i].Delegation; p.agent != "" && (d == nil || *d != p.agent) || p.main && d != nil {
				continue
			}
			in := []json.RawMessage{list.Data[i].Message}
			if p.format == chat.OpenAIResponses {
				in = nil
				if err := json.Unmarshal(list.Data[i].Message, &in); err != nil {
					p.Fatal(err)
				}
			}
			parsed, _, bad := chat.Parse(p.format, in)
			if len(bad) > 0 || len(parsed) != 1 {
				p.Fatal(bad, len(parsed))
			}
			got = append(got, align.Of(&parsed[0].Message))
		}
		if more = list.HasMore; more {
			page.Cursor = *list.NextCursor
		}
	}
	if p.trims { // Messages that a client leaves out may count as removed until it turns out to be a habit.
		if p.name == "summarises" { // A summary in place of one question looks like an edit of it.
			got = slices.DeleteFunc(got, func(h align.Hash) bool { return !slices.Contains(p.said, h) })
		}
		rest := got
		for _, h := range p.said[:p.at] {
			if len(rest) > 0 && rest[0] == h {
				rest = rest[1:]
			}
		}
		if n := min(len(got), 6); len(rest) == 0 && slices.Equal(got[len(got)-n:], p.said[p.at-n:p.at]) {
			return
		}
	}
	if !slices.Equal(got, p.said[:p.at]) {
		p.Fatalf("%s: session %s holds %d messages that are not the %d that were said", p.name, p.lives, len(got), p.at)
	}
}

// TestCampaignHabits runs conversations with clients of every habit in every format. No message may be stored in
// another session, twice or not at all, and each session holds what was said after each turn.
func TestCampaignHabits(t *testing.T) {
	seed := campaign.Seed(t)
	talks := append(made(rand.New(rand.NewPCG(seed, 0)), campaign.Size(9, 100)), recorded(t)...)
	if !campaign.Long() {
		talks = talks[:min(len(talks), 12)]
	}
	for _, backend := range []string{"memory", "badger"} {
		t.Run(backend, func(t *testing.T) {
			k := enginetest.Open(t, memstore.New())
			if backend == "badger" {
				db, err := badgerstore.Open(badgerstore.Options{Dir: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = db.Close() })
				k = enginetest.Open(t, db)
			}
			for n, h := range habits {
				cases := map[align.Case]int{}
				for i, conversation := range talks {
					if backend == "badger" && i%5 != 0 && !campaign.Long() {
						continue
					}
					f := []chat.Format{chat.OpenAIChat, chat.AnthropicMessages, chat.OpenAIResponses}[i%3]
					r := rand.New(rand.NewPCG(seed, uint64(n*1000+i)))
					p := newPerson(k, h, f, fmt.Sprintf("%s-%d", h.name, i), "", conversation, r, cases)
					for p.step() {
					}
				}
				t.Log(h.name, cases)
			}
		})
	}
}

// TestTwoAgentsUnderOneName has two agents alternate under one session name. If they identify themselves, both use the
// session, each with its own chain. If not, the second one uses a fork.
func TestTwoAgentsUnderOneName(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	talks := made(r, campaign.Size(4, 40))
	for i := range talks { // A few words would not show which conversation a request belongs to.
		talks[i][0].Text = fmt.Sprint("Hello from ", i)
		for j := range talks[i] {
			if m := &talks[i][j]; m.Role != plan.RoleTool && len(m.Calls) == 0 {
				m.Text += fmt.Sprintf(" (message %d of conversation %d)", j, i)
			}
		}
	}
	for _, named := range []bool{true, false} {
		k, cases := enginetest.New(t), map[align.Case]int{}
		for i := 0; i < len(talks); i += 2 {
			for n, h := range habits {
				if named && h.name == "summarises" {
					continue // Its words repeat so often that a summary may look like an edit, and sub-agents edit in a fork.
				}
				name := fmt.Sprintf("%s-%d", h.name, i)
				agent := ""
				if named {
					agent = "helper"
				}
				one := newPerson(k, h, chat.OpenAIChat, name, "", talks[i], rand.New(rand.NewPCG(uint64(n), uint64(i))), cases)
				two := newPerson(k, h, chat.OpenAIChat, name, agent, talks[i+1], rand.New(rand.NewPCG(uint64(n), 1)), cases)
				one.main = true
				if !named { // The session belongs to the agent that gets the first reply.
					one.lives, two.lives = "", ""
				}
				for more := true; more; {
					if h.again > 0 && named { // asking again takes back what others said since
						more = one.step()
						continue
					}
					first, second := one.step(), two.step()
					more = first || second
				}
				if fork := ident.ForkOf(name, 1); !named && (one.lives != name || two.lives != fork) &&
					(one.lives != fork || two.lives != name) {
					t.Errorf("%s: they live in %q and %q", name, one.lives, two.lives)
				}
			}
		}
		t.Log(named, cases)
	}
}
