package project

import (
	"encoding/json"
	"reflect"
)

// Asked reports which limits of windows were set explicitly: by the project, or by the operator to a value other than
// the built-in one. If none was, a model call through the proxy is limited only by its model.
type Asked struct{ Messages, Tokens, Pipeline bool }

// Asked finds the settings that were set explicitly. set are those of the project.
func (s *Settings) Asked(set json.RawMessage) Asked {
	var own map[string]json.RawMessage
	_ = json.Unmarshal(set, &own) // it was stored as an object, or is empty
	named := func(name string) bool { return own[name] != nil }
	standard := BuiltIn()
	return Asked{
		Messages: named("history_max_messages") || s.HistoryMaxMessages != standard.HistoryMaxMessages,
		Tokens:   named("history_max_tokens") || s.HistoryMaxTokens != standard.HistoryMaxTokens,
		Pipeline: named("pipeline") || !reflect.DeepEqual(s.Pipeline, standard.Pipeline),
	}
}
