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
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

// Settings are a project's defaults for making windows, and its retention periods.
type Settings struct {
	SessionHistoryDepth int `json:"session_history_depth"` // turns
	// SessionHistoryDepthStep is by how many turns the depth moves at a time. If only the depth is set, the step is 1,
	// so that exactly that many turns are shown in full.
	SessionHistoryDepthStep   int            `json:"session_history_depth_step"`
	HistoryMaxMessages        int            `json:"history_max_messages"`  // 0 means no limit
	HistoryMaxTokens          int            `json:"history_max_tokens"`    // 0 means no limit
	HistoryLowWater           float64        `json:"history_low_water"`     // share of the budget that a cut leaves; -1 means the policy's default
	HistoryLedgerTokens       int            `json:"history_ledger_tokens"` // to name what went; 0 means none, -1 the policy's default
	Oversized                 string         `json:"oversized"`             // shorten or refuse
	Reasoning                 string         `json:"reasoning"`             // shown in chat windows: none, pending or content
	ToolResults               string         `json:"tool_results"`          // messages or markdown
	SummaryEnabled            bool           `json:"summary_enabled"`
	SummaryThreshold          int            `json:"summary_threshold"`        // messages
	SummaryThresholdTokens    int            `json:"summary_threshold_tokens"` // 0 means three fifths of the budget
	SummaryKeepLast           int            `json:"summary_keep_last"`        // messages
	SummaryModel              string         `json:"summary_model"`            // "" means the operator's
	SummaryMode               string         `json:"summary_mode"`             // background or wait
	SummaryWaitMS             int            `json:"summary_wait_ms"`
	EmbeddingModel            string         `json:"embedding_model"`             // "" means no vectors
	EmbeddingDimensions       int            `json:"embedding_dimensions"`        // 0 means the model's own
	EmbeddingTimeoutMS        int            `json:"embedding_timeout_ms"`        // of a query
	ConversationRetentionDays *int           `json:"conversation_retention_days"` // nil means forever
	DailyMemoryDays           int            `json:"daily_memory_days"`
	MemoryNamespace           []string       `json:"memory_namespace"` // of sessions that have none of their own; see Namespace
	MemoryMinTrust            string         `json:"memory_min_trust"` // tool, model, user or operator; empty: not set
	DecisionRetentionDays     int            `json:"decision_retention_days"`
	Decisions                 string         `json:"decisions"` // which are kept: all, errors or none
	Tokenizer                 string         `json:"tokenizer"` // one of Encodings
	TokenScale                Scale          `json:"token_scale"`
	ImageTokens               string         `json:"image_tokens"` // current or earlier, see tokens.Rule
	Pipeline                  []PipelineStep `json:"pipeline"`
	AdmitPipeline             []PipelineStep `json:"admit_pipeline"` // decides about memories before they are written
	ProxySettings
}

// PipelineStep names a policy (its live version, or name@version) and its config.
type PipelineStep struct {
	Policy  string          `json:"policy"`
	Config  json.RawMessage `json:"config,omitempty"`
	OnError string          `json:"on_error,omitempty"` // "" or "skip": continue; "error": refuse the request
	// Guard means that the step runs before all others, on the whole table, and that a request is refused if it fails.
	Guard bool `json:"guard,omitempty"`
	// Standard means that Mneme or its operator chose the policy. It is then the built-in one, even if the tenant has a
	// policy of the same name.
	Standard bool `json:"-"`
}

// Guards returns the guards at the beginning of a pipeline.
func Guards(pipeline []PipelineStep) []PipelineStep {
	n := 0
	for n < len(pipeline) && pipeline[n].Guard {
		n++
	}
	return pipeline[:n]
}

// HookPipeline returns the pipeline of a hook; nil if no setting has it.
func (s *Settings) HookPipeline(h plan.Hook) []PipelineStep {
	switch h {
	case plan.HookAssemble:
		return s.Pipeline
	case plan.HookAdmit:
		return s.AdmitPipeline
	}
	return nil
}

// Steps returns the entries of all pipelines.
func (s *Settings) Steps() []PipelineStep { return slices.Concat(s.Pipeline, s.AdmitPipeline) }

// PipelineName returns the name of the setting that has a hook's pipeline.
func PipelineName(h plan.Hook) string {
	if h.Assembles() {
		return "pipeline"
	}
	return h.String() + "_pipeline"
}

// Pipelines are the functions that this package needs of policies.
type Pipelines struct {
	// Check refuses settings whose pipeline cannot run. If the pipeline changed, Check makes sure that t cannot commit
	// together with the deletion of a policy in the pipeline.
	Check func(t *records.Tx, s Settings, changed bool) error
	// BuiltIn reports whether a name is that of a built-in policy, and Reserved whether tenants cannot use the name.
	BuiltIn, Reserved func(name string) bool
}

// Encodings are the tokenizers that every stored message is counted with.
var Encodings = [2]string{"o200k_base", "cl100k_base"}

// The values of Settings.Decisions. DecisionsErrors keeps the decisions of windows that were cut or shortened, that lost
// thinking, or in which a step failed.
const (
	DecisionsAll    = "all"
	DecisionsErrors = "errors"
	DecisionsNone   = "none"
)

// StaticEmbeddings is the embedding_model that stands for the operator's static model, which runs in process.
const StaticEmbeddings = "static"

// PolicyDefault as a setting stands for the default of the policy that has it in its config.
const PolicyDefault = -1

// MaxEmbeddingDimensions is the maximum length of a vector.
const MaxEmbeddingDimensions = 8192

const (
	// MaxBudget is the largest value of a budget or a setting, in tokens or messages.
	MaxBudget = 1 << 30
	// MaxConsidered is the maximum number of stored messages that one window considers.
	MaxConsidered = 4096
	// MaxPipeline is the maximum number of steps in one pipeline.
	MaxPipeline = 16
)

// DefaultSettings returns the settings of a project that sets none.
func (svc *Service) DefaultSettings() Settings { return svc.defaults.clone() }

// WithDefaults returns a project's settings with the defaults filled in.
func (svc *Service) WithDefaults(set json.RawMessage) (Settings, error) {
	return svc.defaults.with(set)
}

// clone returns a copy of the settings that other settings can be decoded into.
func (s Settings) clone() Settings {
	if s.ConversationRetentionDays != nil {
		days := *s.ConversationRetentionDays
		s.ConversationRetentionDays = &days
	}
	return s
}

// with returns the settings, overridden by those that are set in a JSON object.
func (s Settings) with(set json.RawMessage) (Settings, error) {
	s = s.clone()
	if len(set) == 0 {
		return s, nil
	}
	before := s
	// Decoding would merge what is set into the entries of the defaults.
	s.Pipeline, s.AdmitPipeline, s.Upstreams, s.ProxyTools, s.ProxySessionFields, s.MemoryNamespace = nil, nil, nil, nil, nil, nil
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
	if s.AdmitPipeline == nil {
		s.AdmitPipeline = before.AdmitPipeline
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
	if s.MemoryNamespace == nil {
		s.MemoryNamespace = before.MemoryNamespace
	}
	return s, err
}

// With returns the settings changed by a patch in the format of PatchSettings; null changes nothing. It returns the
// errors of PatchSettings, except those for pipelines.
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

// Patched returns the settings that a project would have after a patch, and stores nothing. It returns the errors of
// PatchSettings, except those for pipelines.
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

// patched applies changes to a project's record, and returns the resulting settings.
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

// Setup is what follows from a project's record. It is computed once for each state of the record.
type Setup struct {
	Settings Settings
	Encoding int      // see Settings.Encoding
	Policies []string // the tenant's own policies in the pipeline

	upstreams []*provider.Upstream
}

// SetupOf returns a project's settings with the defaults filled in. Callers must not change the Setup.
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

// OwnPolicies returns the distinct names in a pipeline that may be policies of the tenant.
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

// Pictures returns the rule for counting pictures.
func (s *Settings) Pictures() tokens.Rule {
	if s.ImageTokens == "earlier" {
		return tokens.Earlier
	}
	return tokens.Current
}

// Encoding returns the index of the project's tokenizer in Encodings.
func (s *Settings) Encoding() int { return max(slices.Index(Encodings[:], s.Tokenizer), 0) }

// Settings returns a project's settings with the defaults filled in, or not_found.
func (svc *Service) Settings(ctx context.Context, c ident.Caller, id string) (Settings, error) {
	p, err := svc.Find(ctx, c, id)
	if err != nil {
		return Settings{}, err
	}
	return svc.WithDefaults(p.Set)
}

// PatchSettings changes the settings named in the patch, a JSON object; null restores a default. It returns not_found
// if there is no such project; invalid_body, unknown_field, wrong_type, out_of_range, invalid_value or too_long if the
// patch or a setting is invalid; unknown_policy or invalid_config if a step of the pipeline is; static_model_missing if
// the operator configured no static model; and policy_unavailable if a module cannot be loaded now.
func (svc *Service) PatchSettings(ctx context.Context, c ident.Caller, id string, patch json.RawMessage,
) (Settings, error) {
	return svc.PatchSettingsIf(ctx, c, id, patch, nil)
}

// PatchSettingsIf is PatchSettings with a condition: known reports whether the tag of the current settings is the one
// that the caller knows; nil means no condition. It returns settings_changed if it is not.
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
		if _, changed := changes["embedding_model"]; err == nil && changed {
			err = svc.checkStatic(&s)
		}
		if err == nil {
			err = svc.remember(t, c, p, before)
		}
		if err != nil {
			return s, err
		}
		_, changed := changes["pipeline"]
		if _, admits := changes["admit_pipeline"]; admits {
			changed = true
		}
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

// checkStatic returns static_model_missing if settings name the static model and the operator configured none.
func (svc *Service) checkStatic(s *Settings) error {
	if s.EmbeddingModel != StaticEmbeddings || svc.HasStatic {
		return nil
	}
	return fault.InvalidField("embedding_model", "static_model_missing",
		"the operator has configured no static model (--static-embeddings)")
}

// merge applies changes to what is set; null unsets.
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

// checkNames returns an error that lists all unknown names.
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

// jsonType returns the JSON name of a Go type.
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

// check checks that settings are in range.
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
		{"history_ledger_tokens", s.HistoryLedgerTokens, PolicyDefault, 4000},
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
	if w := s.HistoryLowWater; w != PolicyDefault && !(w >= 0.1 && w <= 1) {
		return fault.InvalidField("history_low_water", "out_of_range", "must be from 0.1 to 1, or -1")
	}
	if !slices.Contains([]string{"none", "pending", "content"}, s.Reasoning) {
		return fault.InvalidField("reasoning", "invalid_value", "must be none, pending or content")
	}
	if s.ToolResults != "messages" && s.ToolResults != "markdown" {
		return fault.InvalidField("tool_results", "invalid_value", "must be messages or markdown")
	}
	if s.SummaryMode != "background" && s.SummaryMode != "wait" {
		return fault.InvalidField("summary_mode", "invalid_value", "must be background or wait")
	}
	if !slices.Contains([]string{DecisionsAll, DecisionsErrors, DecisionsNone}, s.Decisions) {
		return fault.InvalidField("decisions", "invalid_value", "must be all, errors or none")
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
	if s.EmbeddingModel == StaticEmbeddings && s.EmbeddingDimensions != 0 {
		return fault.InvalidField("embedding_dimensions", "invalid_value",
			"must be 0 with the embedding_model %q, which has its own number of dimensions", StaticEmbeddings)
	}
	if !slices.Contains(Encodings[:], s.Tokenizer) {
		return fault.InvalidField("tokenizer", "invalid_value", "must be %s or %s", Encodings[0], Encodings[1])
	}
	if s.ImageTokens != "current" && s.ImageTokens != "earlier" {
		return fault.InvalidField("image_tokens", "invalid_value", "must be current or earlier")
	}
	if !slices.Contains([]string{"", "tool", "model", "user", "operator"}, s.MemoryMinTrust) {
		return fault.InvalidField("memory_min_trust", "invalid_value", "must be tool, model, user or operator, or empty")
	}
	if err := ident.CheckNamespace("memory_namespace", s.MemoryNamespace); err != nil {
		return err
	}
	if err := s.ProxySettings.check(); err != nil {
		return err
	}
	if err := s.checkGuarded(); err != nil {
		return err
	}
	if len(Guards(s.AdmitPipeline)) > 0 {
		return fault.InvalidField("admit_pipeline", "invalid_value", "guards are for windows; a step with on_error \"error\" "+
			"makes the request fail if it fails")
	}
	return s.TokenScale.check()
}

// checkGuarded checks that a pipeline with guards does not come with a setting of the proxy that goes around them.
func (s *Settings) checkGuarded() error {
	if len(Guards(s.Pipeline)) == 0 {
		return nil
	}
	if s.ProxyMode != ModeAuto && s.ProxyMode != ModeAssemble {
		return fault.InvalidField("proxy_mode", "guard_needs_window", "must be auto or assemble while the pipeline has guards, "+
			"because the other modes send the client's own messages")
	}
	if len(s.ProxyTools) > 0 {
		return fault.InvalidField("proxy_tools", "guard_needs_window", "must be empty while the pipeline has guards, because "+
			"no window shows the results of these tools to them")
	}
	return nil
}
