// Command redact is an example policy: it hides secrets with a known prefix from the model, in texts and in the
// arguments of calls. The stored messages do not change.
package main

import (
	"strings"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

var _ = mneme.Register(redact)

// shown replaces a secret.
const shown = "[redacted]"

// buffer holds the text that is being examined. A plan may contain at most 16 KiB of text, so a longer text cannot be
// replaced.
var buffer [16 << 10]byte

// redact replaces every word that begins with the configured prefix.
func redact(req *mneme.Request, plan *mneme.Plan) error {
	prefix := req.ConfigString("prefix", "sk-")
	if prefix == "" {
		return nil
	}
	why := plan.Text("secret: begins with ").Str(prefix)
	for i := range req.Len() {
		r := req.Record(i)
		if req.Find(i, prefix) >= 0 {
			switch n := req.Text(i, 0, buffer[:]); {
			case n <= len(buffer):
				plan.Replace(i, cleaned(plan, string(buffer[:n]), prefix), why)
			case r.Role == mneme.Tool:
				plan.Stub(i, i, why)
			default:
				return mneme.Error("redact: a message with a secret is longer than a plan can replace")
			}
		}
		if r.Kind != mneme.Call {
			continue
		}
		for call := 0; ; call++ {
			n := req.Args(i, call, 0, buffer[:])
			if n < 0 {
				break
			}
			if !hidden(req, i, call, n, prefix) {
				continue
			}
			if n > len(buffer) {
				return mneme.Error("redact: arguments with a secret are longer than a plan can replace")
			}
			plan.ReplaceArguments(i, call, cleaned(plan, string(buffer[:n]), prefix), why)
		}
	}
	return nil
}

// hidden reports whether the arguments of a call contain the prefix. The buffer holds their beginning. Longer ones are
// read in pieces, each of which begins with the end of the previous one.
func hidden(req *mneme.Request, record, call, length int, prefix string) bool {
	for from := 0; ; {
		n := min(length-from, len(buffer))
		if strings.Contains(string(buffer[:n]), prefix) {
			return true
		}
		if from += n; from >= length {
			return false
		}
		from -= len(prefix) - 1
		req.Args(record, call, from, buffer[:])
	}
}

// cleaned writes a text into the plan without the words that begin with the prefix. A word ends at the first character
// that cannot be part of a key, so that JSON stays JSON.
func cleaned(plan *mneme.Plan, text, prefix string) mneme.Text {
	out := plan.Text("")
	for {
		at := strings.Index(text, prefix)
		if at < 0 {
			return out.Str(text)
		}
		out = out.Str(text[:at]).Str(shown)
		end := at + len(prefix)
		for end < len(text) && part(text[end]) {
			end++
		}
		text = text[end:]
	}
}

// part reports whether a key may contain a character.
func part(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func main() {}
