// Package redactsecrets is the built-in policy that keeps secrets out of memories and windows: private keys, tokens of
// well-known shapes, passwords in URLs and the numbers of payment cards. Each becomes [redacted: KIND].
package redactsecrets

import (
	"unsafe"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

const (
	code     = "secret"
	codeLong = "value_too_long"
	errLong  = mneme.Error("redact-secrets: a message with a secret is longer than a plan can replace")
)

// maxText is what a plan can write of the texts of one memory.
const maxText = 15 << 10

// overlap is how much of a long text is examined twice, so that no secret is split.
const overlap = 1 << 10

// The texts that are examined.
var (
	buffer [16 << 10]byte
	value  [32 << 10]byte
)

// view returns what the buffer begins with, until it is used again.
func view(n int) string { return unsafe.String(&buffer[0], n) }

// Admit redacts the content, the value and the metadata of a candidate, or refuses it: where the mode says so, and where
// its secret cannot be replaced, because it is in the key, in a name of the value or the metadata, or in a long text.
func Admit(req *mneme.Request, plan *mneme.Plan) error {
	patch := patch{to: sink{text: plan.Text("")}}
	refuse := found(req.String(req.Memory(0).Key))
	if n := req.Text(0, 0, buffer[:]); n > len(buffer) {
		refuse = refuse || foundIn(req, 0, n)
	} else if n > 0 {
		patch.add("content", view(n), asQuoted)
	}
	for _, field := range [...]string{"metadata", "value"} {
		switch n := req.JSON(0, "/"+field, value[:]); {
		case n > len(value):
			plan.Refuse(plan.Text(codeLong)) // Nobody can tell what is in it.
			return nil
		case n > 0:
			text := unsafe.String(&value[0], n)
			patch.add(field, text, wayOf(req, field, text))
		}
	}
	switch {
	case refuse, patch.impossible, patch.fields > 0 && req.ConfigString("mode", "redact") == "refuse":
		plan.Refuse(plan.Text(code))
	case patch.fields > 0:
		plan.Patch(0, patch.end(), plan.Text(code))
	}
	return nil
}

// Assemble redacts the texts of a window and the arguments of its calls.
func Assemble(req *mneme.Request, plan *mneme.Plan) error {
	var why mneme.Text
	reason := func() mneme.Text {
		if why.Len() == 0 {
			why = plan.Text(code)
		}
		return why
	}
	for i := range req.Len() {
		r := req.Record(i)
		n := req.Text(i, 0, buffer[:])
		switch {
		case n > len(buffer):
			if !foundIn(req, i, n) {
				break
			}
			if r.Role != mneme.Tool {
				return errLong
			}
			plan.Stub(i, i, reason())
		case n > 0 && found(view(n)):
			reason := reason()
			plan.Replace(i, write(plan, view(n), asText), reason)
		}
		if r.Kind != mneme.Call {
			continue
		}
		for call := 0; ; call++ {
			n := req.Args(i, call, 0, buffer[:])
			if n < 0 {
				break
			}
			if !found(view(min(n, len(buffer)))) {
				continue
			}
			if n > len(buffer) {
				return errLong
			}
			reason := reason()
			plan.ReplaceArguments(i, call, write(plan, view(n), asJSON), reason)
		}
	}
	return nil
}

func found(s string) bool {
	_, ok := next(s, 0)
	return ok
}

// foundIn examines a text that is longer than the buffer, in pieces.
func foundIn(req *mneme.Request, record, length int) bool {
	for from := 0; ; from += len(buffer) - overlap {
		req.Text(record, from, buffer[:])
		n := min(length-from, len(buffer))
		if found(view(n)) {
			return true
		}
		if from+n >= length {
			return false
		}
	}
}
