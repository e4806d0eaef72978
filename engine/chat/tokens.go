package chat

// What a message costs beyond its texts, in tokens. Three per message is OpenAI's published count for chat
// completions, one per name too. A call is counted like a message of its own, three and its texts. An image costs
// what OpenAI charges for 1024 x 1024 pixels in high detail. Ids, reasoning and JSON syntax cost nothing.
const (
	TokensPerMessage = 3
	TokensPerName    = 1
	TokensPerCall    = 3
	TokensPerImage   = 765
)

// Tokens counts the message as it stands in any of the message formats, count being the tokenizer.
func (m *Message) Tokens(count func(string) int) int {
	n := TokensPerMessage + count(RoleName(m.Role)) + count(m.Shown()) + m.Images*TokensPerImage
	if m.Name != "" {
		n += TokensPerName + count(m.Name)
	}
	for i := range m.Calls {
		n += TokensPerCall + count(m.Calls[i].Name) + count(m.Calls[i].Arguments)
	}
	return n
}

// NoticeTokens counts a system-class message: a summary, memories, a marker, or the request's system prompt.
func NoticeTokens(text string, count func(string) int) int {
	return TokensPerMessage + count("system") + count(text)
}

// PlaceholderTokens is what an Empty message costs in Anthropic's format beside its own count.
func PlaceholderTokens(count func(string) int) int { return count(Placeholder) }

// LeadTokens is what Anthropic's format adds where the window begins with an assistant's message.
func LeadTokens(count func(string) int) int {
	return TokensPerMessage + count("user") + count(Placeholder)
}
