package project

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Settings are a project's defaults for assembling.
type Settings struct {
	SessionHistoryDepth       int            `json:"session_history_depth"`
	HistoryMaxMessages        int            `json:"history_max_messages"`
	HistoryMaxTokens          int            `json:"history_max_tokens"`
	SummaryEnabled            bool           `json:"summary_enabled"`
	SummaryThreshold          int            `json:"summary_threshold"`
	SummaryKeepLast           int            `json:"summary_keep_last"`
	SummaryModel              string         `json:"summary_model"`
	SummaryMode               string         `json:"summary_mode"`
	SummaryWaitMS             int            `json:"summary_wait_ms"`
	ConversationRetentionDays *int           `json:"conversation_retention_days"`
	DailyMemoryDays           int            `json:"daily_memory_days"`
	DecisionRetentionDays     int            `json:"decision_retention_days"`
	Tokenizer                 string         `json:"tokenizer"`
	Pipeline                  []PipelineStep `json:"pipeline"`
}

// PipelineStep names a policy (its live version, or name@version) and its config.
type PipelineStep struct {
	Policy  string          `json:"policy"`
	Config  json.RawMessage `json:"config,omitempty"`
	OnError string          `json:"on_error,omitempty"` // "" or "skip": go on; "error": refuse the request
}

// Encodings are the tokenizers that every stored message is counted with.
var Encodings = [2]string{"o200k_base", "cl100k_base"}

// jsonType names a Go type as JSON users know it.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	case reflect.Pointer:
		return jsonType(t.Elem())
	}
	return "an object"
}

const (
	// MaxBudget bounds what a budget or a setting may say, in tokens or messages.
	MaxBudget = 1 << 30
	// MaxConsidered is how many stored messages one window looks at, at most.
	MaxConsidered = 4096
)

const defaultHistoryMaxTokens = 8000

// MaxPipeline bounds the steps of one pipeline.
const MaxPipeline = 16

// defaultPipeline is what a project runs that sets none.
var defaultPipeline = [...]string{"delegation-filter", "summarise", "depth-compress", "tool-pair-trim"}

// Pipelines are what projects ask of policies; engine.New gives them.
type Pipelines struct {
	// check refuses settings whose pipeline cannot run. Where the pipeline changed, check sees to it that the commit of
	// t and the deletion of a policy that the pipeline names exclude each other.
	Check func(t *records.Tx, s Settings, changed bool) error
	// builtIn tells whether a name is that of a policy that this program comes with.
	BuiltIn func(name string) bool
}

func (svc *Service) DefaultSettings() Settings {
	s := Settings{SessionHistoryDepth: 20, HistoryMaxMessages: 50, HistoryMaxTokens: svc.maxTokens,
		SummaryThreshold: 40, SummaryKeepLast: 12, SummaryMode: "background", SummaryWaitMS: 10000,
		DailyMemoryDays: 7, DecisionRetentionDays: 7, Tokenizer: Encodings[0]}
	for _, name := range defaultPipeline {
		s.Pipeline = append(s.Pipeline, PipelineStep{Policy: name})
	}
	return s
}

// WithDefaults fills what a project set into the defaults.
func (svc *Service) WithDefaults(set json.RawMessage) (Settings, error) {
	s := svc.DefaultSettings()
	if len(set) == 0 {
		return s, nil
	}
	standard := s.Pipeline
	s.Pipeline = nil // else decoding would merge a set pipeline into the default's entries
	dec := json.NewDecoder(bytes.NewReader(set))
	dec.DisallowUnknownFields()
	err := dec.Decode(&s)
	if s.Pipeline == nil {
		s.Pipeline = standard
	}
	return s, err
}

// Settings answers a project's settings, defaults filled in, or not_found.
func (svc *Service) Settings(ctx context.Context, c access.Caller, id string) (Settings, error) {
	p, _, _, err := svc.Read(ctx, c, id, nil)
	if err != nil {
		return Settings{}, err
	}
	return svc.WithDefaults(p.Set)
}

// PatchSettings changes the settings that the patch names; null puts one back to its default. It answers not_found where
// there is no such project, unknown_field, wrong_type, out_of_range, invalid_value or too_long where a setting is wrong,
// unknown_policy or invalid_config where a step of the pipeline is, and policy_unavailable where a module cannot be
// loaded now.
func (svc *Service) PatchSettings(ctx context.Context, c access.Caller, id string, patch json.RawMessage) (Settings, error) {
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil || changes == nil {
		return Settings{}, fault.Errorf(fault.Invalid, "invalid_body", "the body must be a JSON object of settings")
	}
	if err := knownSettings(changes); err != nil {
		return Settings{}, err
	}
	if !ident.ValidID(id) || !c.MaySee(id) {
		return Settings{}, fault.Errorf(fault.NotFound, "not_found", "no project %q", id)
	}
	return records.Update(ctx, svc.db, c, access.Once{}, func(t *records.Tx) (Settings, error) {
		got, err := t.Get(records.Project.Key(id))
		if err != nil {
			return Settings{}, err
		}
		if got[0].Value == nil {
			return Settings{}, fault.Errorf(fault.NotFound, "not_found", "no project %q", id)
		}
		p := new(Record)
		if err := json.Unmarshal(got[0].Value, p); err != nil {
			return Settings{}, err
		}
		set := map[string]json.RawMessage{}
		if len(p.Set) > 0 {
			if err := json.Unmarshal(p.Set, &set); err != nil {
				return Settings{}, err
			}
		}
		for k, v := range changes {
			if string(v) == "null" {
				delete(set, k)
			} else {
				set[k] = v
			}
		}
		if p.Set, err = json.Marshal(set); err != nil {
			return Settings{}, err
		}
		s, err := svc.WithDefaults(p.Set)
		if typed := (*json.UnmarshalTypeError)(nil); errors.As(err, &typed) {
			return Settings{}, fault.InvalidField(typed.Field, "wrong_type", "must be %s, not %s", jsonType(typed.Type), typed.Value)
		}
		if err != nil { // the names were known, so it is an unknown field of a pipeline entry
			return Settings{}, fault.InvalidField("pipeline", "unknown_field", "%s", strings.TrimPrefix(err.Error(), "json: "))
		}
		if err := s.check(); err != nil {
			return Settings{}, err
		}
		_, changed := changes["pipeline"]
		if err := svc.Pipelines.Check(t, s, changed); err != nil {
			return Settings{}, err
		}
		return s, t.PutJSON(records.Project.Key(id), p)
	})
}

// knownSettings refuses names that are no settings, all at once.
func knownSettings(changes map[string]json.RawMessage) error {
	known := map[string]json.RawMessage{}
	b, err := json.Marshal(Settings{})
	if err == nil {
		err = json.Unmarshal(b, &known)
	}
	if err != nil {
		return err
	}
	refusal := fault.Errorf(fault.Invalid, "unknown_field", "unknown settings")
	for name := range changes {
		if _, ok := known[name]; !ok {
			refusal.Fields = append(refusal.Fields, fault.FieldError{Field: name, Code: "unknown_field", Detail: "no such setting"})
		}
	}
	if refusal.Fields == nil {
		return nil
	}
	sort.Slice(refusal.Fields, func(i, j int) bool { return refusal.Fields[i].Field < refusal.Fields[j].Field })
	return refusal
}

// check holds settings against their ranges.
func (s *Settings) check() error {
	ranges := []struct {
		name      string
		value     int
		low, high int
	}{
		{"session_history_depth", s.SessionHistoryDepth, 1, 100},
		{"history_max_messages", s.HistoryMaxMessages, 0, MaxBudget},
		{"history_max_tokens", s.HistoryMaxTokens, 0, MaxBudget},
		{"summary_threshold", s.SummaryThreshold, 1, MaxConsidered - 1},
		{"summary_keep_last", s.SummaryKeepLast, 1, s.SummaryThreshold},
		{"summary_wait_ms", s.SummaryWaitMS, 0, 60_000},
		{"daily_memory_days", s.DailyMemoryDays, 1, 36_500},
		{"decision_retention_days", s.DecisionRetentionDays, 1, 3_650},
	}
	if s.ConversationRetentionDays != nil {
		ranges = append(ranges, struct {
			name      string
			value     int
			low, high int
		}{"conversation_retention_days", *s.ConversationRetentionDays, 1, 36_500})
	}
	for _, r := range ranges {
		if r.value < r.low || r.value > r.high {
			return fault.InvalidField(r.name, "out_of_range", "must be from %d to %d", r.low, r.high)
		}
	}
	if s.SummaryMode != "background" && s.SummaryMode != "wait" {
		return fault.InvalidField("summary_mode", "invalid_value", "must be background or wait")
	}
	if len(s.SummaryModel) > 256 {
		return fault.InvalidField("summary_model", "too_long", "must be at most 256 bytes")
	}
	if !slices.Contains(Encodings[:], s.Tokenizer) {
		return fault.InvalidField("tokenizer", "invalid_value", "must be %s or %s", Encodings[0], Encodings[1])
	}
	return nil
}

// Encoding is the place of the project's tokenizer in Encodings.
func (s *Settings) Encoding() int { return max(slices.Index(Encodings[:], s.Tokenizer), 0) }
