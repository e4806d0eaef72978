package providers

import "strings"

// Model describes what a model checks in addition to its API. The zero value adds no checks.
type Model struct {
	ID     string
	Window int // input tokens; 0 means no limit

	// Anthropic.
	BindsThinking  bool // a thinking block is valid only behind the exact prefix it was made behind
	Opts           bool // BindsThinking applies only to requests that set prefix_mismatch_behavior
	OwnThinking    bool // no other model can read its thinking
	Prefill        bool // the last message may be the assistant's
	SystemMessages bool // role system is allowed among the messages
	ManualThinking bool // thinking.type enabled with a budget
	Adaptive       bool // thinking.type adaptive
	AlwaysThinks   bool // thinking.type disabled is refused
	BetweenTools   bool // thinking.type between_tools
	NoForcedChoice bool // tool_choice any and tool are refused
	NoSampling     bool // temperature, top_p and top_k are refused
	MaxOutput      int  // maximum of max_tokens; 0 means none
	ToolPrompt     int  // tokens of the hidden prompt with tools

	// OpenAI and other providers with its API.
	PairsReasoning   bool // a reasoning item and the items it produced need each other
	DropsReasoning   bool // reasoning after a changed prefix is removed silently
	NoChatTools      bool // function tools are refused by Chat Completions
	NoOldParameters  bool // max_tokens, stop and a temperature are refused by Chat Completions
	Updates          bool // configuration_update items
	ReasoningContent bool // assistant messages with tool calls need reasoning_content
	UniqueCallIDs    bool // a call id appears once in a request
	NineCallIDs      bool // call ids are nine letters or digits
}

// claude returns a model with what all models from 4.6 on have in common.
func claude(id string, m Model) Model {
	m.ID, m.Window, m.MaxOutput, m.Adaptive = id, 1_000_000, 128_000, true
	return m
}

// models are the models that a request can name. A request for any other model gets a 404.
var models = []Model{
	// Manual thinking and prefill are not available after 4.5: D/errors, D/pricing.
	{ID: "claude-haiku-4-5", Window: 200_000, MaxOutput: 64_000, Prefill: true, ManualThinking: true, ToolPrompt: 496},
	{ID: "claude-sonnet-4-5", Window: 200_000, MaxOutput: 64_000, Prefill: true, ManualThinking: true, ToolPrompt: 496},
	claude("claude-opus-4-6", Model{ManualThinking: true, ToolPrompt: 497}),
	claude("claude-opus-4-8", Model{SystemMessages: true, ToolPrompt: 290}),
	claude("claude-sonnet-5", Model{ToolPrompt: 354}),
	claude("claude-opus-5", Model{SystemMessages: true, ToolPrompt: 286}),
	// Thinking is bound for accounts made since 2026-08-31 (PT), and the kit's account is new.
	claude("claude-opus-5-5", Model{SystemMessages: true, BindsThinking: true, AlwaysThinks: true,
		NoForcedChoice: true, NoSampling: true}),
	claude("claude-sonnet-5-5", Model{SystemMessages: true, BindsThinking: true, BetweenTools: true,
		NoForcedChoice: true, NoSampling: true}),
	claude("claude-haiku-5-5", Model{SystemMessages: true, BindsThinking: true, NoSampling: true}),
	claude("claude-fable-5-1", Model{SystemMessages: true, BindsThinking: true, Opts: true, AlwaysThinks: true,
		NoForcedChoice: true, NoSampling: true}),
	// Thinking is bound for every account, and only 5.2 can read the thinking of 5.2: F52, PT.
	claude("claude-fable-5-2", Model{SystemMessages: true, BindsThinking: true, OwnThinking: true, AlwaysThinks: true,
		NoForcedChoice: true, NoSampling: true}),

	{ID: "gpt-4o", Window: 128_000},
	{ID: "gpt-4.1", Window: 1_047_576},
	{ID: "gpt-5.5", Window: 272_000, PairsReasoning: true},
	{ID: "gpt-5.6", Window: 272_000, PairsReasoning: true},
	{ID: "gpt-6-luna", Window: 272_000, PairsReasoning: true, NoOldParameters: true, Updates: true},
	{ID: "gpt-6-astra", Window: 272_000, PairsReasoning: true, NoChatTools: true, NoOldParameters: true, Updates: true},
	{ID: "gpt-6.2-astra", Window: 272_000, PairsReasoning: true, DropsReasoning: true, NoChatTools: true,
		NoOldParameters: true, Updates: true},
	{ID: "deepseek-v4", ReasoningContent: true},
	{ID: "mistral-large", NineCallIDs: true},
	{ID: "minimax-m3", UniqueCallIDs: true},
}

// Named returns a model of the table. It panics for an unknown name, because tests use constant names.
func Named(id string) Model {
	m := known(id)
	if m == nil {
		panic("providers: no model " + id)
	}
	return *m
}

func known(id string) *Model {
	for i := range models {
		if models[i].ID == id {
			return &models[i]
		}
	}
	return nil
}

// modelOf returns the model that a request names, or the one that the options set.
func (o *options) modelOf(api API, body object) (*Model, *Refusal) {
	if o.model != nil {
		return o.model, nil
	}
	id := body.str("model")
	if m := known(id); m != nil && strings.HasPrefix(id, "claude-") == (api == Messages) {
		return m, nil
	}
	if api == Messages {
		if id == "" {
			return nil, refuse("model: Field required") // unquoted
		}
		return nil, &Refusal{Status: 404, Type: "not_found_error", Message: "model: " + id} // D/errors
	}
	if id == "" {
		return nil, refuse("you must provide a model parameter") // unquoted
	}
	return nil, &Refusal{Status: 404, Type: "invalid_request_error", Code: "model_not_found",
		Message: "The model `" + id + "` does not exist or you do not have access to it."} // unquoted
}
