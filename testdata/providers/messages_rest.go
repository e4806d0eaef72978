package providers

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/gif"  // decodes image sizes
	_ "image/jpeg" // decodes image sizes
	_ "image/png"  // decodes image sizes
	"slices"
	"strings"
)

var messagesRest = []rule[*messagesRequest]{
	// notes: at most four breakpoints, in any position.
	{"messages/breakpoints", func(r *messagesRequest) *Refusal {
		if n := len(r.breakpoints()); n > 4 {
			return refuse("A maximum of 4 blocks with cache_control may be provided. Found %d.", n)
		}
		return nil
	}},
	// claude-code#39599, hermes-agent#1216: a longer time to live comes before a shorter one.
	{"messages/ttl", func(r *messagesRequest) *Refusal {
		short := false
		for _, b := range r.breakpoints() {
			if b.ttl == "1h" && short {
				return refuse("%s.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "+
					"cache_control block. Note that blocks are processed in the following order: `tools`, `system`, "+
					"`messages`.",
					b.at)
			}
			short = short || b.ttl != "1h"
		}
		return nil
	}},
	// an cache_control_ephemeral_param. Unquoted.
	{"messages/cache-control", func(r *messagesRequest) *Refusal {
		for _, b := range r.breakpoints() {
			if b.kind != "ephemeral" || b.ttl != "" && b.ttl != "5m" && b.ttl != "1h" {
				return refuse("%s.cache_control: Input should be {\"type\": \"ephemeral\"} with ttl '5m' or '1h'", b.at)
			}
			if b.deferred { // D/prompt-caching
				return refuse("%s: cache_control cannot be set for a tool with defer_loading", b.at)
			}
		}
		return nil
	}},
	// D/vision, notes (measured), notes: formats, bytes, sides and count of images.
	{"messages/image", messagesImages},
	// D/errors and dev.to/persimmoq (measured): the kinds of thinking that a model has.
	{"messages/thinking-type", func(r *messagesRequest) *Refusal {
		thinking := r.body.object("thinking")
		switch kind := thinking.str("type"); {
		case thinking == nil:
		case kind == "disabled" && r.model.AlwaysThinks:
			return refuse("\"thinking.type.disabled\" is not supported for this model. Use " +
				"\"thinking.type.adaptive\" and " +
				"\"output_config.effort\" to control thinking behavior.")
		case kind == "enabled" && !r.model.ManualThinking:
			return refuse("\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" " +
				"and " +
				"\"output_config.effort\" to control thinking behavior.")
		case kind == "adaptive" && !r.model.Adaptive:
			return refuse("adaptive thinking is not supported on this model")
		case kind == "between_tools" && (!r.model.BetweenTools || len(thinking) > 1):
			return extra("thinking.between_tools.", thinking, "type")
		case !slices.Contains([]string{"disabled", "enabled", "adaptive", "between_tools"}, kind):
			return refuse("thinking: Input tag '%s' found using 'type' does not match any of the expected tags", kind)
		}
		return nil
	}},
	// sub2api#6677, FIX: the setting needs the beta header and adaptive thinking.
	{"messages/block-binding", func(r *messagesRequest) *Refusal {
		thinking := r.body.object("thinking")
		if !thinking.has("block_binding") {
			return nil
		}
		if kind := thinking.str("type"); kind != "adaptive" || !r.betas[bindingBeta] {
			return refuse("thinking.%s.block_binding: Extra inputs are not permitted", kind)
		}
		if b := thinking.object("block_binding").str("prefix_mismatch_behavior"); b != "drop_block" &&
			b != "error" { // unquoted
			return refuse("thinking.adaptive.block_binding.prefix_mismatch_behavior: Input should be 'drop_block' or " +
				"'error'")
		}
		return nil
	}},
	// notes, openrouter claude-5-5: no sampling parameters.
	{"messages/sampling", func(r *messagesRequest) *Refusal {
		for _, key := range []string{"temperature", "top_p", "top_k"} {
			n, ok := r.body.number(key)
			if ok && r.model.NoSampling && (key == "top_k" || n != 1) {
				return refuse("%s: not supported for this model", key) // unquoted
			}
		}
		return nil
	}},
	// notes: a thinking block has a text or a signature.
	{"messages/thinking-empty", eachBlock(func(r *messagesRequest, b block) *Refusal {
		if b.str("type") == "thinking" && b.str("thinking") == "" && b.str("signature") == "" {
			return refuse("%s.thinking: each thinking block must contain thinking", b.at)
		}
		return nil
	})},
	// ODC, an types/compaction_*_error.py: a signed compaction block comes first, only once, and unchanged.
	{"messages/compaction", messagesCompaction},
	// D/extended-thinking: with manual thinking, an open tool loop begins with thinking.
	{"messages/manual-loop", func(r *messagesRequest) *Refusal {
		n := len(r.turns)
		if r.body.object("thinking").str("type") != "enabled" || n < 2 || len(uses(r.turns[n-2])) == 0 {
			return nil
		}
		if b := r.turns[n-2].blocks[0]; !isThinking(b.object) {
			return refuse("%s.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When thinking is "+
				"enabled, a "+
				"final `assistant` message must start with a thinking block (preceeding the lastmost set of "+
				"`tool_use` and "+
				"`tool_result` blocks).", b.at, b.str("type"))
		}
		return nil
	}},
	// PT, pydantic-ai#7984 (measured): each thinking block follows the prefix that it was made for; see thinking.go.
	{"messages/thinking", func(r *messagesRequest) (refusal *Refusal) {
		r.end, refusal = r.walkThinking()
		return refusal
	}},
	// D/errors, notes.
	{"messages/window", func(r *messagesRequest) *Refusal {
		if n := r.tokens(); r.model.Window > 0 && n > r.model.Window {
			return refuse("prompt is too long: %d tokens > %d maximum", n, r.model.Window)
		}
		return nil
	}},
}

// breakpoint is one cache_control.
type breakpoint struct {
	at, kind, ttl string
	deferred      bool
}

// breakpoints returns all breakpoints of a request in the order of processing: tools, system, messages, including those
// nested in their blocks. One at the top level counts too.
func (r *messagesRequest) breakpoints() []breakpoint {
	var out []breakpoint
	add := func(at string, o object) {
		if c := o.object("cache_control"); c != nil {
			out = append(out, breakpoint{at, c.str("type"), c.str("ttl"), o.flag("defer_loading")})
		}
	}
	for i, tool := range objects(r.body.list("tools")) {
		add(fmt.Sprintf("tools.%d", i), tool)
	}
	for i, b := range objects(r.body.list("system")) {
		add(fmt.Sprintf("system.%d", i), b)
	}
	for _, b := range r.blocks {
		for j, part := range objects(b.list("content")) {
			add(fmt.Sprintf("%s.%s.content.%d", b.at, b.str("type"), j), part)
		}
		add(b.at+"."+b.str("type"), b.object)
	}
	add("request", r.body)
	return out
}

// messagesImages checks all images, including those within results.
func messagesImages(r *messagesRequest) *Refusal {
	type placed struct {
		at     string
		source object
	}
	var images []placed
	for _, b := range r.blocks {
		if b.str("type") == "image" {
			images = append(images, placed{b.at + ".image.source", b.object.object("source")})
		}
		for j, part := range objects(b.list("content")) {
			if part.str("type") == "image" {
				images = append(images, placed{fmt.Sprintf("%s.tool_result.content.%d.image.source", b.at, j),
					part.object("source")})
			}
		}
	}
	most := 600
	if r.model.Window == 200_000 {
		most = 100
	}
	if len(images) > most {
		return refuse("messages: too many images: %d > %d", len(images), most) // unquoted
	}
	for _, i := range images {
		switch kind := i.source.str("type"); kind {
		case "url", "file":
		case "base64":
			if !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"},
				i.source.str("media_type")) {
				return refuse("%s.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or "+
					"'image/webp'", i.at)
			}
			data := i.source.str("data")
			if len(data) > 10<<20 {
				return refuse("%s.base64: image exceeds 10 MB maximum: %d bytes > 10485760 bytes", i.at, len(data))
			}
			raw, err := base64.StdEncoding.DecodeString(data)
			if err != nil {
				return refuse("%s.base64.data: Invalid base64 data", i.at) // unquoted
			}
			size, _, err := image.DecodeConfig(bytes.NewReader(raw))
			if err != nil {
				continue // a WebP, which the standard library does not decode, or a test's placeholder without a size
			}
			if side := max(size.Width, size.Height); side > 8000 {
				return refuse("%s.base64: At least one of the image dimensions exceed max allowed size: 8000 pixels",
					i.at)
			} else if side > 2000 && len(images) > 20 {
				return refuse("%s.base64: At least one of the image dimensions exceed max allowed size for "+
					"many-image requests: "+
					"2000 pixels", i.at)
			}
		default:
			return refuse("%s: Input tag '%s' found using 'type' does not match any of the expected tags: 'base64', "+
				"'file', 'url'",
				i.at, kind)
		}
	}
	return nil
}

// messagesCompaction checks the signed blocks of on-demand compaction.
func messagesCompaction(r *messagesRequest) *Refusal {
	found := 0
	for n, b := range r.blocks {
		if b.str("type") != "compaction" {
			continue
		}
		if !b.has("signature") { // D/compaction: blocks of compact_20260112 may be anywhere, but not empty
			if text, is := b.object["content"].(string); is && text == "" {
				return refuse("%s.compaction.content: must be non-empty or null", b.at) // unquoted
			}
			continue
		}
		if found++; found > 1 {
			return refuse("%s: a request may hold one `compaction` block",
				b.at).coded("compaction_block_ambiguous") // unquoted
		}
		if n > 0 {
			return refuse("%s: `compaction` block must be sent first, in place of the messages it summarizes; remove "+
				"those messages",
				b.at).coded("compaction_block_misplaced")
		}
		var c condensed
		if open(b.str("signature"), &c) != nil {
			return refuse("%s: Invalid `signature` in `compaction` block",
				b.at).coded("compaction_signature_invalid") // unquoted
		}
		if c.Content != digest(b.str("content")) {
			return refuse("%s: the `compaction` block's content was changed",
				b.at).coded("compaction_content_mismatch") // unquoted
		}
	}
	if r.body.object("compaction") == nil {
		return nil
	}
	if last := r.turns[len(r.turns)-1]; last.role == "assistant" && len(uses(last)) > 0 {
		return refuse("compaction: a tool call is open").coded("compaction_incomplete_turn") // unquoted
	}
	if found == 1 && len(r.blocks) == 1 {
		return refuse("compaction: there is nothing to summarize").coded("compaction_nothing_to_summarize") // unquoted
	}
	for _, key := range []string{"context_management", "stop_sequences"} {
		if r.body.has(key) {
			return refuse("compaction: not with `%s`", key) // unquoted
		}
	}
	return nil
}

// tokens estimates the tokens of a request: its texts, its tools and the hidden prompt for tools (D/pricing). Documents
// and images count nothing.
func (r *messagesRequest) tokens() int {
	n := 7 + r.texts(r.body["system"]) // D/token-counting: "You are a scientist" and "Hello, Claude" are 14
	for _, b := range r.blocks[r.lastThreshold():] {
		n += 1 + r.texts(map[string]any(b.object.without("cache_control")))
	}
	if tools := r.body.list("tools"); len(tools) > 0 {
		n += r.model.ToolPrompt + r.count(strings.TrimSpace(string(encode(tools))))
	}
	return n
}
