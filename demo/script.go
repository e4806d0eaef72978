package demo

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// script is the content of a session's file in sessions.
type script struct {
	ID, Title, Agent, Kind, Format, System string

	Ago, Every time.Duration // when it began, and the time between two turns
	Budget     int           // tokens of each window
	Memories   int           // how many each window asks for
	Finally    []int         // budgets that the last window is also asked for with
	File       *struct {     // the first turns come as a file, whose summary covers the first of them
		Turns, Summary int
	}
	Summary string
	Turns   []turn
}

type turn struct {
	User       string
	Delegation *delegation
	Steps      []step
	Answer     string
}

// delegation is the work of another agent for a turn, which the main agent does not see.
type delegation struct {
	ID, Agent, Task string
	Steps           []step
	Answer          string
}

// step is one tool call, with its result and the thinking before it.
type step struct {
	Think, Call string
	Input       map[string]any
	Result      result
	Tags        []string
}

// result is a text, or as many rows of the shop's catalogue as are said.
type result struct {
	text      string
	Catalogue int
}

// UnmarshalYAML reads a result.
func (r *result) UnmarshalYAML(decode func(any) error) error {
	if decode(&r.text) == nil {
		return nil
	}
	type rows result
	return decode((*rows)(r))
}

func (r result) String() string {
	if r.Catalogue > 0 {
		return catalogue(r.Catalogue)
	}
	return r.text
}

// catalogue is a table of parts, as long as tools answer that were asked too little.
func catalogue(rows int) string {
	kinds := [...]string{"tyre 40-622 black", "tyre 40-622 tan wall", "tube 40-622", "mini pump", "floor pump",
		"chain 11-speed", "pads L05A", "rain jacket", "bottle cage", "mudguards", "front light", "bar tape"}
	makers := [...]string{"Kestrel", "Nordlicht", "Puff", "Drizzle", "Ravel"}
	type part struct {
		SKU   string  `json:"sku"`
		Name  string  `json:"name"`
		Price float64 `json:"price"`
		Stock int     `json:"stock"`
		Shelf string  `json:"shelf"`
	}
	list := make([]part, rows)
	for i := range list {
		list[i] = part{fmt.Sprintf("KC-%04d", 400+i), makers[i%len(makers)] + " " + kinds[i%len(kinds)],
			float64(990+i*7919%9000) / 100, i * 31 % 17, fmt.Sprintf("%c%d", 'A'+i/9%6, 1+i%9)}
	}
	return string(encoded(list))
}

// speaker is in whose name messages are posted, and when.
type speaker struct {
	agent, delegation string
	at                time.Time
}

// message is a provider's message with Mneme's own fields.
func (s speaker) message(m map[string]any, tags []string) json.RawMessage {
	if s.agent != "" {
		m["agent"] = s.agent
	}
	if s.delegation != "" {
		m["delegation_id"] = s.delegation
	}
	if len(tags) > 0 {
		m["tags"] = tags
	}
	m["created_at"] = s.at.Format(time.RFC3339)
	return encoded(m)
}

// said is a message of a user, or of an agent that delegates.
func (s speaker) said(text string) json.RawMessage {
	return s.message(map[string]any{"role": "user", "content": text}, nil)
}

// done are the messages of the steps and the answer, in the format of the session. call names the calls.
func (s speaker) done(format, call string, steps []step, answer string) (out []json.RawMessage) {
	for i, st := range steps {
		id := fmt.Sprintf("%s_%d", call, i+1)
		if st.Input == nil {
			st.Input = map[string]any{}
		}
		called, result := callOf(format, id, st)
		out = append(out, s.message(called, st.Tags), s.message(result, st.Tags))
	}
	return append(out, s.message(map[string]any{"role": "assistant", "content": answer}, nil))
}

// callOf is a call and its result as the three formats write them.
func callOf(format, id string, st step) (called, result map[string]any) {
	arguments, text := string(encoded(st.Input)), st.Result.String()
	switch format {
	case "anthropic.messages":
		var blocks []any
		if st.Think != "" {
			blocks = append(blocks, map[string]any{"type": "thinking", "thinking": st.Think,
				"signature": base64.StdEncoding.EncodeToString([]byte("demo " + id))})
		}
		blocks = append(blocks, map[string]any{"type": "tool_use", "id": id, "name": st.Call, "input": st.Input})
		return map[string]any{"role": "assistant", "content": blocks},
			map[string]any{"role": "user", "content": []any{
				map[string]any{"type": "tool_result", "tool_use_id": id, "content": text}}}
	case "openai.responses":
		return map[string]any{"type": "function_call", "call_id": id, "name": st.Call, "arguments": arguments},
			map[string]any{"type": "function_call_output", "call_id": id, "output": text}
	default:
		return map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": id,
				"type": "function", "function": map[string]any{"name": st.Call, "arguments": arguments}}}},
			map[string]any{"role": "tool", "tool_call_id": id, "content": text}
	}
}

// run is one run of an agent: it asks for windows, works, and posts the result of the first window as a turn.
type run struct {
	windows []map[string]any
	turn    map[string]any
}

// runs are all runs of a session whose conversation began at a time. A delegation's comes before that of its turn.
func (s *script) runs(began time.Time) (out []run) {
	for i, t := range s.Turns {
		at := began.Add(time.Duration(i) * s.Every)
		call := fmt.Sprintf("call_%d", i+1)
		if d := t.Delegation; d != nil {
			who := speaker{d.Agent, d.ID, at}
			out = append(out, run{[]map[string]any{s.window(s.Budget, d.Task, d.Agent, d.ID)}, map[string]any{
				"session_id": s.ID, "agent": d.Agent, "delegation_id": d.ID, "format": s.Format,
				"messages": append([]json.RawMessage{who.said(d.Task)}, who.done(s.Format, call+"_"+d.Agent, d.Steps,
					d.Answer)...)}})
		}
		who := speaker{at: at}
		r := run{[]map[string]any{s.window(s.Budget, t.User, s.Agent, "")}, map[string]any{"session_id": s.ID,
			"agent": s.Agent, "format": s.Format, "messages": append([]json.RawMessage{who.said(t.User)},
				who.done(s.Format, call, t.Steps, t.Answer)...)}}
		if i == len(s.Turns)-1 {
			for _, budget := range s.Finally {
				r.windows = append(r.windows, s.window(budget, t.User, s.Agent, ""))
			}
		}
		out = append(out, r)
	}
	return out
}

// window is a request for the window that a question is answered from.
func (s *script) window(budget int, question, agent, delegation string) map[string]any {
	viewer := map[string]any{"agent": agent}
	if delegation != "" {
		viewer["delegation_id"] = delegation
	}
	w := map[string]any{"session_id": s.ID, "format": s.Format, "system": s.System, "viewer": viewer,
		"budget":  map[string]any{"max_tokens": budget},
		"pending": []any{map[string]any{"role": "user", "content": question}}}
	if s.Memories > 0 && delegation == "" {
		w["memories"] = map[string]any{"limit": s.Memories}
	}
	return w
}

// file is the session's file: its first turns, with a summary of the first of them.
func (s *script) file(began time.Time) map[string]any {
	var turns []any
	covered := 0
	for i, r := range s.runs(began)[:s.File.Turns] {
		at := began.Add(time.Duration(i) * s.Every).Format(time.RFC3339)
		var messages []any
		for _, m := range r.turn["messages"].([]json.RawMessage) {
			messages = append(messages, map[string]any{"format": s.Format, "agent": s.Agent, "created_at": at, "message": m})
		}
		if i < s.File.Summary {
			covered += len(messages)
		}
		turns = append(turns, map[string]any{"turn": i + 1, "created_at": at, "messages": messages})
	}
	return map[string]any{"version": 1, "session": s.spec(), "created_at": began.Format(time.RFC3339), "turns": turns,
		"summary": map[string]any{"text": s.Summary, "covers_turns": []int{1, s.File.Summary}, "covers": covered,
			"covers_messages": covered, "model": "the demo's script"}}
}

func (s *script) spec() map[string]any {
	spec := map[string]any{"id": s.ID, "title": s.Title, "agent": s.Agent}
	if s.Kind != "" {
		spec["kind"] = s.Kind
	}
	return spec
}

// encoded is a value as JSON. The demo's values always encode.
func encoded(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("encoding the demo: " + err.Error())
	}
	return b
}
