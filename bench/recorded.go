package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/insight/facts"
)

// recording is a recorded session, or several of them woven into one.
type recording struct {
	system string // system prompts, and the descriptions of tools
	turns  []turn
}

// readRecordings reads all *.json and *.jsonl files of a folder. A file has objects with "messages" and perhaps "tools",
// or lists of messages, in OpenAI's chat format: one, several in a list, or one in each line. An object may also have
// "turns" with a role and a text each, as BEAM's chats have.
func readRecordings(folder string) (all []recording, err error) {
	entries, err := os.ReadDir(folder) // in the order of their names
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if end := filepath.Ext(e.Name()); end != ".json" && end != ".jsonl" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		for d := json.NewDecoder(bytes.NewReader(b)); d.More(); {
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name(), err)
			}
			found, err := parseRecordings(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name(), err)
			}
			all = append(all, found...)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no *.json or *.jsonl file has a transcript", folder)
	}
	return all, nil
}

func parseRecordings(value json.RawMessage) ([]recording, error) {
	var one struct {
		Role     string
		Messages []json.RawMessage
		Tools    json.RawMessage
		Turns    []struct{ Role, Text string }
	}
	var list []json.RawMessage
	switch {
	case json.Unmarshal(value, &list) == nil:
		if len(list) > 0 && json.Unmarshal(list[0], &one) == nil && one.Role != "" {
			one.Messages = list
			break
		}
		var all []recording
		for _, v := range list {
			found, err := parseRecordings(v)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		return all, nil
	default:
		if err := json.Unmarshal(value, &one); err != nil {
			return nil, err
		}
		for _, t := range one.Turns {
			raw, err := json.Marshal(map[string]string{"role": t.Role, "content": t.Text})
			if err != nil {
				return nil, err
			}
			one.Messages = append(one.Messages, raw)
		}
		if one.Messages == nil {
			return nil, fmt.Errorf(`an object without "messages"`)
		}
	}
	r := recording{system: string(one.Tools)}
	for _, raw := range one.Messages {
		if err := r.add(raw); err != nil {
			return nil, err
		}
	}
	return []recording{r}, nil
}

// add adds a message. It removes members that are null, as some recorders write them and providers refuse.
func (r *recording) add(raw json.RawMessage) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	for name, value := range m {
		if name != "content" && string(value) == "null" {
			delete(m, name)
		}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	role := strings.Trim(string(m["role"]), `"`)
	if role == "system" || role == "developer" {
		m, err := facts.Parse(raw)
		r.system += m.Text + "\n"
		return err
	}
	if role == "user" || len(r.turns) == 0 {
		r.turns = append(r.turns, nil)
	}
	last := len(r.turns) - 1
	r.turns[last] = append(r.turns[last], raw)
	return nil
}

// reshape changes what a session is: "single" is one recording, "braid4" weaves four of them together turn by turn, as
// an agent sees four customers at once, and "chain" has all recordings one after another.
func reshape(all []recording, shape string) ([]recording, error) {
	count, braid := strings.CutPrefix(shape, "braid")
	for i := range all {
		var err error
		if all[i], err = all[i].renamed(i); err != nil {
			return nil, err
		}
	}
	n, err := strconv.Atoi(count)
	switch {
	case shape == "single":
		return all, nil
	case shape == "chain":
		n = len(all)
	case !braid || err != nil || n < 2:
		return nil, fmt.Errorf(`--shape: %q is not "single", "chain" or "braid" with a number above 1`, shape)
	}
	var out []recording
	for group := range slices.Chunk(all, n) {
		if len(group) < n {
			break // as many sessions in each
		}
		var r recording
		for i := range group {
			if !strings.Contains(r.system, group[i].system) {
				r.system += group[i].system
			}
		}
		for at, more := 0, true; more; at++ {
			more = false
			for _, g := range group {
				switch {
				case shape == "chain":
					r.turns = append(r.turns, g.turns...)
				case at < len(g.turns):
					r.turns, more = append(r.turns, g.turns[at]), true
				}
			}
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--shape %s needs %d transcripts, and there are %d", shape, n, len(all))
	}
	return out, nil
}

// renamed returns a recording whose tool calls have unique ids. Some recorded models use an id twice.
func (r recording) renamed(n int) (recording, error) {
	out := recording{system: r.system}
	ids, made := map[string]string{}, 0
	for _, t := range r.turns {
		var renamed turn
		for _, raw := range t {
			var m map[string]any
			if err := json.Unmarshal(raw, &m); err != nil {
				return out, err
			}
			if id, ok := m["tool_call_id"].(string); ok && ids[id] != "" {
				m["tool_call_id"] = ids[id]
			}
			calls, _ := m["tool_calls"].([]any)
			for _, c := range calls {
				if call, ok := c.(map[string]any); ok {
					made++
					id, _ := call["id"].(string)
					ids[id] = fmt.Sprintf("call-%d-%d", n, made)
					call["id"] = ids[id]
				}
			}
			raw, err := json.Marshal(m)
			if err != nil {
				return out, err
			}
			renamed = append(renamed, raw)
		}
		out.turns = append(out.turns, renamed)
	}
	return out, nil
}
