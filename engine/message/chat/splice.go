package chat

import "github.com/seed-0906e6bc/mneme/engine/message/render"

// Formats, fragments and the builder that joins them to windows are from package render. They are also declared here,
// because code that renders a message goes on to build a window.
type (
	Format   = render.Format
	Fragment = render.Fragment
	Builder  = render.Builder
	Window   = render.Window
)

// The formats. The zero Format marks a message that no client posted.
const (
	OpenAIChat        = render.OpenAIChat
	AnthropicMessages = render.AnthropicMessages
	OpenAIResponses   = render.OpenAIResponses
	Text              = render.Text // output only
)

// Placeholder is the text where a format demands one and there is none.
const Placeholder = render.Placeholder

// ParseFormat returns the format with that name, or false if there is none.
func ParseFormat(name string) (Format, bool) { return render.ParseFormat(name) }

func appendRole(dst []byte, role string) []byte { return render.AppendRole(dst, role) }

func appendTextPart(dst []byte, typ, text string) []byte {
	return render.AppendTextPart(dst, typ, text)
}
