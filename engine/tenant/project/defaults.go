package project

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

// Names returns the names of all settings, in the order in which they are shown.
func Names() (names []string) {
	for _, field := range fields() {
		names = append(names, field.Tag.Get("json"))
	}
	return names
}

// fields returns the fields of Settings that hold a setting.
func fields() []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[Settings]()),
		func(f reflect.StructField) bool { return f.Anonymous })
}

// BuiltIn returns the settings of a project that sets none, on a server whose operator sets none.
func BuiltIn() Settings {
	return Settings{SessionHistoryDepth: 20, SessionHistoryDepthStep: 20, HistoryMaxMessages: 50, HistoryMaxTokens: 8000,
		HistoryLowWater: PolicyDefault, HistoryLedgerTokens: PolicyDefault,
		Oversized: "shorten", Reasoning: "none", ToolResults: "messages",
		SummaryThreshold: 40, SummaryKeepLast: 12, SummaryMode: "background", SummaryWaitMS: 10000, EmbeddingTimeoutMS: 300,
		DailyMemoryDays: 7, MemoryNamespace: []string{}, DecisionRetentionDays: 7, Decisions: DecisionsAll, Tokenizer: Encodings[0], TokenScale: 1, ImageTokens: "current",
		Pipeline: []PipelineStep{{Policy: "delegation-filter", Standard: true},
			{Policy: "tool-result-clear", Standard: true}, {Policy: "summarise", Standard: true},
			{Policy: "tool-pair-trim", Standard: true}},
		AdmitPipeline: []PipelineStep{},
		ProxySettings: ProxySettings{Upstreams: []provider.Spec{}, ProxyMode: ModeAuto, ProxyOnError: "open",
			ProxyOnDisconnect: "cancel", ProxyHistory: HistoryAuto, ProxyTools: []string{}, ProxySessionFields: []string{}}}
}

// Defaults parses the settings that an operator sets for all projects, as texts by name. A string setting is written as
// it is, any other in JSON. It returns the errors of PatchSettings.
func Defaults(set map[string]string) (Settings, error) {
	values := map[string]json.RawMessage{}
	for _, field := range fields() {
		name := field.Tag.Get("json")
		text, ok := set[name]
		switch {
		case !ok:
			continue
		case field.Type.Kind() == reflect.String:
			quoted, err := json.Marshal(text)
			if err != nil {
				return Settings{}, err
			}
			values[name] = quoted
		case !json.Valid([]byte(text)):
			return Settings{}, fault.InvalidField(name, "wrong_type", "must be %s", jsonType(field.Type))
		default:
			values[name] = json.RawMessage(text)
		}
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return Settings{}, err
	}
	s, err := BuiltIn().with(raw)
	if err := typeError(err); err != nil {
		return s, err
	}
	for _, pipeline := range [][]PipelineStep{s.Pipeline, s.AdmitPipeline} {
		for i := range pipeline {
			pipeline[i].Standard = true
		}
	}
	return s, s.check()
}

// typeError returns the client's error for one that decoding settings returned.
func typeError(err error) error {
	if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fault.InvalidField(typed.Field, "wrong_type", "must be %s, not %s", jsonType(typed.Type), typed.Value)
	}
	if err != nil { // names were checked before, so the unknown field is in a pipeline entry
		return fault.InvalidField("pipeline", "unknown_field", "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// CheckDefaults refuses defaults whose pipeline cannot run in every tenant: its policies must be built in.
func (svc *Service) CheckDefaults(ctx context.Context) error {
	for _, step := range svc.defaults.Steps() {
		if name, _, _ := strings.Cut(step.Policy, "@"); !svc.Pipelines.BuiltIn(name) {
			return fault.InvalidField("pipeline", "unknown_policy", "%q is not a policy that comes with Mneme", name)
		}
	}
	for i := range svc.defaults.Upstreams {
		if svc.defaults.Upstreams[i].Key == provider.Sealed {
			return fault.InvalidField("upstreams", "invalid_value", "only a project's own settings can seal a key")
		}
	}
	if err := svc.allowed(svc.defaults.Upstreams); err != nil {
		return err
	}
	if err := svc.checkStatic(&svc.defaults); err != nil {
		return err
	}
	return svc.Pipelines.Check(svc.db.Begin(ctx, records.SystemTenant), svc.defaults, false)
}
