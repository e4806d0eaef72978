package project

import (
	"encoding/json"
	"reflect"
)

// Asked tells which bounds of windows somebody has set: the project, or the operator by another value than the one that
// Mneme comes with. A model call that comes through the proxy is bounded by its model alone where nobody asks for more.
type Asked struct{ Messages, Tokens, Pipeline bool }

// Asked finds what of the settings somebody has set. set are those that the project did.
func (s *Settings) Asked(set json.RawMessage) Asked {
	var own map[string]json.RawMessage
	_ = json.Unmarshal(set, &own) // It was stored as an object, or is empty.
	named := func(name string) bool { return own[name] != nil }
	standard := builtIn()
	return Asked{
		Messages: named("history_max_messages") || s.HistoryMaxMessages != standard.HistoryMaxMessages,
		Tokens:   named("history_max_tokens") || s.HistoryMaxTokens != standard.HistoryMaxTokens,
		Pipeline: named("pipeline") || !reflect.DeepEqual(s.Pipeline, standard.Pipeline),
	}
}
