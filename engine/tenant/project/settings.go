package project

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

// Settings are a project's defaults for making windows, and how long it keeps what.
type Settings struct {
	SessionHistoryDepth int `json:"session_history_depth"` // turns
	// SessionHistoryDepthStep is by how many turns the depth moves at a time. Where whoever sets the depth does not set
	// it, it is 1, so that just as many turns are in full as were asked for.
	SessionHistoryDepthStep   int            `json:"session_history_depth_step"`
	HistoryMaxMessages        int            `json:"history_max_messages"` // 0: no bound
	HistoryMaxTokens          int            `json:"history_max_tokens"`   // 0: no bound
	Oversized                 string         `json:"oversized"`            // shorten or refuse
	SummaryEnabled            bool           `json:"summary_enabled"`
	SummaryThreshold          int            `json:"summary_threshold"`        // messages
	SummaryThresholdTokens    int            `json:"summary_threshold_tokens"` // 0: three fifths of the budget
	SummaryKeepLast           int            `json:"summary_keep_last"`        // messages
	SummaryModel              string         `json:"summary_model"`            // "": the operator's
	SummaryMode               string         `json:"summary_mode"`             // background or wait
	SummaryWaitMS             int            `json:"summary_wait_ms"`
	EmbeddingModel            string         `json:"embedding_model"`             // "": no vectors
	EmbeddingDimensions       int            `json:"embedding_dimensions"`        // 0: the model's own
	EmbeddingTimeoutMS        int            `json:"embedding_timeout_ms"`        // of a query
	ConversationRetentionDays *int           `json:"conversation_retention_days"` // nil: for good
	DailyMemoryDays           int            `json:"daily_memory_days"`
	DecisionRetentionDays     int            `json:"decision_retention_days"`
	Tokenizer                 string         `json:"tokenizer"` // one of Encodings
	TokenScale                Scale          `json:"token_scale"`
	ImageTokens               string         `json:"image_tokens"` // current or earlier, as tokens.Rule
	Pipeline                  []PipelineStep `json:"pipeline"`
	ProxySettings
}

// PipelineStep names a policy (its live version, or name@version) and its config.
type PipelineStep struct {
	Policy  string          `json:"policy"`
	Config  json.RawMessage `json:"config,omitempty"`
	OnError string          `json:"on_error,omitempty"` // "" or "skip": go on; "error": refuse the request
	// Standard says that nobody but Mneme or its operator named the policy: it is the one that comes with Mneme, even
	// where the tenant has called a policy of its own so.
	Standard bool `json:"-"`
}

// Pipelines are what projects ask of policies.
type Pipelines struct {
	// Check refuses settings whose pipeline cannot run. Where the pipeline changed, Check makes the commit of t and the
	// deletion of a policy that the pipeline names exclude each other.
	Check func(t *records.Tx, s Settings, changed bool) error
	// BuiltIn tells whether a name is that of a policy that this program comes with, and Reserved whether no tenant can
	// have a policy of that name.
	BuiltIn, Reserved func(name string) bool
}

// Encodings are the tokenizers that every stored message is counted with.
var Encodings = [2]string{"o200k_base", "cl100k_base"}

// MaxEmbeddingDimensions bounds the length of a vector.
const MaxEmbeddingDimensions = 8192

const (
	// MaxBudget bounds what a budget or a setting may say, in tokens or messages.
	MaxBudget = 1 << 30
	// MaxConsidered is how many stored messages one window looks at, at most.
	MaxConsidered = 4096
	// MaxPipeline bounds the steps of one pipeline.
	MaxPipeline = 16
)

// DefaultSettings are those of a project that sets none.
func (svc *Service) DefaultSettings() Settings { return svc.defaults.clone() }

// WithDefaults fills what a project set into the defaults.
func (svc *Service) WithDefaults(set json.RawMessage) (Settings, error) {
	return svc.defaults.with(set)
}

// clone is a copy of settings into which others can be decoded.
func (s Settings) clone() Settings {
	if s.ConversationRetentionDays != nil {
		days := *s.ConversationRetentionDays
		s.ConversationRetentionDays = &days
	}
	return s
}

// with gives settings with what a JSON object sets of them.
func (s Settings) with(set json.RawMessage) (Settings, error) {
	s = s.clone()
	if len(set) == 0 {
		return s, nil
	}
	before := s
	// Decoding would merge what is set into the entries of the defaults.
	s.Pipeline, s.Upstreams, s.ProxyTools, s.ProxySessionFields = nil, nil, nil, nil
	dec := json.NewDecoder(bytes.NewReader(set))
	dec.DisallowUnknownFields()
	var depths struct {
		Depth *json.RawMessage `json:"session_history_depth"`
	}
	if json.Unmarshal(set, &depths) == nil && depths.Depth != nil {
		s.SessionHistoryDepthStep = 1
	}
	err := dec.Decode(&s)
	if s.Pipeline == nil {
		s.Pipeline = before.Pipeline
	}
	if s.Upstreams == nil {
		s.Upstreams = before.Upstreams
	}
	if s.ProxyTools == nil {
		s.ProxyTools = before.ProxyTools
	}
	if s.ProxySessionFields == nil {
		s.ProxySessionFields = before.ProxySessionFields
	}
	return s, err
}

// With gives the settings with the changes of a patch, as PatchSettings takes it; null changes nothing. It answers the
// same errors for a patch that is wrong, but for those of a pipeline.
func (s Settings) With(patch json.RawMessage) (Settings, error) {
	if len(patch) == 0 || string(patch) == "null" {
		return s, nil
	}
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil {
		return s, fault.InvalidField("settings", "wrong_type", "must be an object of settings")
	}
	if err := checkNames(changes); err != nil {
		return s, err
	}
	out, err := s.with(patch)
	if err := typeError(err); err != nil {
		return s, err
	}
	return out, out.check()
}

// Patched gives the settings of a project as a patch would leave them, and stores nothing. It answers what PatchSettings
// answers for a patch that is wrong, but for those of a pipeline.
func (svc *Service) Patched(p *Record, patch json.RawMessage) (Settings, error) {
	changes := map[string]json.RawMessage{}
	if len(patch) > 0 && json.Unmarshal(patch, &changes) != nil {
		return Settings{}, fault.InvalidField("settings", "wrong_type", "must be an object of settings")
	}
	if err := checkNames(changes); err != nil {
		return Settings{}, err
	}
	return svc.patched(&Record{Project: p.Project, Set: p.Set}, changes)
}

// patched lays changes over what a project sets, and gives what its settings are then.
func (svc *Service) patched(p *Record, changes map[string]json.RawMessage) (Settings, error) {
	if err := p.merge(changes); err != nil {
		return Settings{}, err
	}
	s, err := svc.WithDefaults(p.Set)
	if err := typeError(err); err != nil {
		return s, err
	}
	return s, s.check()
}

// Setup is what a project's record alone says. It is made once for each state of the record.
type Setup struct {
	Settings Settings
	Encoding int      // as Settings.Encoding
	Policies []string // the tenant's own that the pipeline names

	upstreams []*provider.Upstream
}

// SetupOf gives a project's settings with the defaults filled in. Callers must not change the Setup.
func (svc *Service) SetupOf(p *Record) (*Setup, error) {
	if s := p.setup.Load(); s != nil {
		return s, nil
	}
	settings, err := svc.WithDefaults(p.Set)
	if err != nil {
		return nil, err
	}
	s := &Setup{Settings: settings, Encoding: settings.Encoding(), Policies: svc.OwnPolicies(settings.Pipeline),
		upstreams: svc.open(p, settings.Upstreams)}
	p.setup.Store(s)
	return s, nil
}

// OwnPolicies are the names in a pipeline that may be policies of the tenant's, each once.
func (svc *Service) OwnPolicies(entries []PipelineStep) []string {
	var names []string
	for _, entry := range entries {
		name, _, _ := strings.Cut(entry.Policy, "@")
		if !entry.Standard && !svc.Pipelines.Reserved(name) && ident.ValidID(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Pictures is the rule by which pictures are counted.
func (s *Settings) Pictures() tokens.Rule {
	if s.ImageTokens == "earlier" {
		return tokens.Earlier
	}
	return tokens.Current
}

// Encoding is the place of the project's tokenizer in Encodings.
func (s *Settings) Encoding() int { return max(slices.Index(Encodings[:], s.Tokenizer), 0) }

// Settings answers a project's settings, defaults filled in, or not_found.
func (svc *Service) Settings(ctx context.Context, c ident.Caller, id string) (Settings, error) {
	p, err := svc.Find(ctx, c, id)
	if err != nil {
		return Settings{}, err
	}
	return svc.WithDefaults(p.Set)
}

// PatchSettings changes the settings that the patch, a JSON object, names; null puts one back to its default. It
// answers not_found where there is no such project, invalid_body, unknown_field, wrong_type, out_of_range,
// invalid_value or too_long where the patch or a setting is wrong, unknown_policy or invalid_config where a step of the
// pipeline is, and policy_unavailable where a module cannot be loaded now.
func (svc *Service) PatchSettings(ctx context.Context, c ident.Caller, id string, patch json.RawMessage,
) (Settings, error) {
	return svc.PatchSettingsIf(ctx, c, id, patch, nil)
}

// PatchSettingsIf is PatchSettings where the settings are those that the caller knows by their tag; nil asks for nothing.
// It answers settings_changed where they are others.
func (svc *Service) PatchSettingsIf(ctx context.Context, c ident.Caller, id string, patch json.RawMessage,
	known func(tag string) bool) (Settings, error) {
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil || changes == nil {
		return Settings{}, fault.Errorf(fault.Invalid, "invalid_body", "the body must be a JSON object of settings")
	}
	if err := checkNames(changes); err != nil {
		return Settings{}, err
	}
	if err := reaches(c, id); err != nil {
		return Settings{}, err
	}
	secrets, err := takeSecrets(changes)
	if err != nil {
		return Settings{}, err
	}
	return records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (Settings, error) {
		p, err := change(t, id)
		if err != nil {
			return Settings{}, err
		}
		if err := svc.unlike(p, known); err != nil {
			return Settings{}, err
		}
		before := p.Set
		s, err := svc.patched(p, changes)
		if err == nil {
			err = svc.remember(t, c, p, before)
		}
		if err != nil {
			return s, err
		}
		_, changed := changes["pipeline"]
		if err := svc.Pipelines.Check(t, s, changed); err != nil {
			return s, err
		}
		if _, changed := changes["upstreams"]; changed {
			if err := svc.seal(p, s.Upstreams, secrets); err != nil {
				return s, err
			}
		}
		return s, t.PutJSON(records.Project.Key(id), p)
	})
}

// merge lays changes over what is set; null unsets.
func (p *Record) merge(changes map[string]json.RawMessage) (err error) {
	set := map[string]json.RawMessage{}
	if len(p.Set) > 0 {
		if err := json.Unmarshal(p.Set, &set); err != nil {
			return err
		}
	}
	maps.Copy(set, changes)
	maps.DeleteFunc(set, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	p.Set, err = json.Marshal(set)
	return err
}

// checkNames refuses names that are no settings, all at once.
func checkNames(changes map[string]json.RawMessage) error {
	known := Names()
	refusal := fault.Errorf(fault.Invalid, "unknown_field", "unknown settings")
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if !slices.Contains(known, name) {
			refusal.Fields = append(refusal.Fields,
				fault.FieldError{Field: name, Code: "unknown_field", Detail: "no such setting"})
		}
	}
	if refusal.Fields == nil {
		return nil
	}
	return refusal
}

// jsonType names a Go type as JSON users know it.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "a boolean"
	case reflect.Float64:
		return "a number"
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

// check holds settings against their ranges.
func (s *Settings) check() error {
	retention := 1
	if s.ConversationRetentionDays != nil {
		retention = *s.ConversationRetentionDays
	}
	for _, r := range []struct {
		name             string
		value, low, high int
	}{
		{"session_history_depth", s.SessionHistoryDepth, 1, 100},
		{"session_history_depth_step", s.SessionHistoryDepthStep, 1, 100},
		{"history_max_messages", s.HistoryMaxMessages, 0, MaxBudget},
		{"history_max_tokens", s.HistoryMaxTokens, 0, MaxBudget},
		{"summary_threshold", s.SummaryThreshold, 1, MaxConsidered - 1},
		{"summary_threshold_tokens", s.SummaryThresholdTokens, 0, MaxBudget},
		{"summary_keep_last", s.SummaryKeepLast, 1, s.SummaryThreshold},
		{"summary_wait_ms", s.SummaryWaitMS, 0, 60_000},
		{"embedding_dimensions", s.EmbeddingDimensions, 0, MaxEmbeddingDimensions},
		{"embedding_timeout_ms", s.EmbeddingTimeoutMS, 1, 10_000},
		{"daily_memory_days", s.DailyMemoryDays, 1, 36_500},
		{"decision_retention_days", s.DecisionRetentionDays, 1, 3_650},
		{"conversation_retention_days", retention, 1, 36_500},
	} {
		if r.value < r.low || r.value > r.high {
			return fault.InvalidField(r.name, "out_of_range", "must be from %d to %d", r.low, r.high)
		}
	}
	if s.SummaryMode != "background" && s.SummaryMode != "wait" {
		return fault.InvalidField("summary_mode", "invalid_value", "must be background or wait")
	}
	if s.Oversized != "shorten" && s.Oversized != "refuse" {
		return fault.InvalidField("oversized", "invalid_value", "must be shorten or refuse")
	}
	if len(s.SummaryModel) > 256 {
		return fault.InvalidField("summary_model", "too_long", "must be at most 256 bytes")
	}
	if len(s.EmbeddingModel) > 256 {
		return fault.InvalidField("embedding_model", "too_long", "must be at most 256 bytes")
	}
	if !slices.Contains(Encodings[:], s.Tokenizer) {
		return fault.InvalidField("tokenizer", "invalid_value", "must be %s or %s", Encodings[0], Encodings[1])
	}
	if s.ImageTokens != "current" && s.ImageTokens != "earlier" {
		return fault.InvalidField("image_tokens", "invalid_value", "must be current or earlier")
	}
	if err := s.ProxySettings.check(); err != nil {
		return err
	}
	return s.TokenScale.check()
}
