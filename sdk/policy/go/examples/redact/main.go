// Command redact is an example policy: it hides secrets with a known prefix from the model, in texts and in the
// arguments of calls. The stored messages do not change. Use it as a guard.
package main

import (
	"slices"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

var _ = mneme.Register(redact)

// The lengths of secrets that a plan can mask, in bytes.
const (
	shortest = 4
	longest  = 256
)

// buffer holds a secret.
var buffer [longest + 1]byte

// redact masks every word that begins with the configured prefix, in all records: a secret that is found in one may be in
// the thinking of another, which a policy does not see.
func redact(req *mneme.Request, plan *mneme.Plan) error {
	prefix := req.ConfigString("prefix", "sk-")
	if prefix == "" {
		return nil
	}
	why := plan.Text("secret: begins with ").Str(prefix)
	var secrets []string
	for i := range req.Len() {
		more := true
		for call := mneme.InText; more; call++ {
			var err error
			if secrets, more, err = find(req, i, call, prefix, secrets); err != nil {
				return err
			}
			more = more && req.Record(i).Kind == mneme.Call
		}
	}
	for _, secret := range secrets {
		plan.Mask(0, req.Len()-1, plan.Text(secret), why)
	}
	return nil
}

// find adds the secrets of a record's text or of the arguments of its call. It returns false if there is no such call.
func find(req *mneme.Request, record, call int, prefix string, secrets []string) ([]string, bool, error) {
	for from := 0; ; {
		at := req.Search(record, call, from, prefix)
		if at < 0 {
			return secrets, at == -1, nil
		}
		length := 0
		if call == mneme.InText {
			length = req.Text(record, at, buffer[:])
		} else {
			length = req.Args(record, call, at, buffer[:])
		}
		end, most := len(prefix), min(length-at, len(buffer))
		for end < most && part(buffer[end]) {
			end++
		}
		if end > longest {
			return nil, true, mneme.Error("redact: a secret is longer than a plan can mask")
		}
		if secret := string(buffer[:end]); end >= shortest && !slices.Contains(secrets, secret) {
			secrets = append(secrets, secret)
		}
		from = at + end
	}
}

// part reports whether a key may contain a character.
func part(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func main() {}
