package hard

import "encoding/json"

// Invalid is a turn that must be refused as a whole, and the position of its first fault.
type Invalid struct {
	Name  string
	Input []json.RawMessage
	Index int // of the faulty message in Input
}

// InvalidTurns returns turns in openai.chat that every session must refuse: the first messages are valid, one is not.
func InvalidTurns() []Invalid {
	const user = `{"role":"user","content":"book it"}`
	const asks = `{"role":"assistant","content":null,"tool_calls":[{"id":"bad_1","type":"function",` +
		`"function":{"name":"book","arguments":"{}"}}]}`
	const answer = `{"role":"tool","tool_call_id":"bad_1","content":"done"}`
	turn := func(name string, index int, messages ...string) Invalid {
		in := Invalid{Name: name, Index: index}
		for _, m := range messages {
			in.Input = append(in.Input, json.RawMessage(m))
		}
		return in
	}
	return []Invalid{
		turn("result without a call", 1, user, `{"role":"tool","tool_call_id":"never_called","content":"x"}`),
		turn("result before its call", 1, user, answer, asks),
		turn("second result of one call", 3, user, asks, answer, answer),
		turn("result without an id", 2, user, asks, `{"role":"tool","content":"x"}`),
		turn("result in another delegation", 2, user, asks,
			`{"role":"tool","tool_call_id":"bad_1","content":"x","delegation_id":"elsewhere"}`),
		turn("unknown role", 1, user, `{"role":"wizard","content":"x"}`),
		turn("no role", 1, user, `{"content":"x"}`),
		turn("role in capitals", 0, `{"role":"User","content":"x"}`),
		turn("not an object", 1, user, `"hello"`),
		turn("a number as content", 1, user, `{"role":"user","content":7}`),
		turn("a part without a type", 1, user, `{"role":"user","content":[{"text":"x"}]}`),
		turn("calls that are no list", 1, user, `{"role":"assistant","tool_calls":{"id":"c"}}`),
		turn("a call without an id", 1, user,
			`{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]}`),
		turn("a call without a name", 1, user,
			`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"arguments":"{}"}}]}`),
		turn("two calls of one id", 1, user, `{"role":"assistant","tool_calls":[`+
			`{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},`+
			`{"id":"c","type":"function","function":{"name":"g","arguments":"{}"}}]}`),
		turn("tags that are no list", 1, user, `{"role":"user","content":"x","tags":"a"}`),
		turn("a time that is none", 1, user, `{"role":"user","content":"x","created_at":"yesterday"}`),
		turn("a delegation that is no id", 1, user, `{"role":"user","content":"x","delegation_id":"no\ttabs"}`),
		turn("a message between agents without a sender", 1, user,
			`{"role":"user","content":"x","type":"a2a","to_agent":"b"}`),
	}
}
