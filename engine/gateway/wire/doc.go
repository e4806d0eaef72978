// Package wire reads and edits the bodies of model calls, and reads what providers answer, in OpenAI's Chat Completions and
// Responses and in Anthropic's Messages.
package wire
