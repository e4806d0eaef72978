package plan

import "errors"

// MaskedArguments returns arguments as a MASK leaves them.
func MaskedArguments(arguments, secret string) (string, error) {
	if wrong := checkMask(secret); wrong != "" {
		return "", errors.New(wrong)
	}
	h := &hider{masks: []*Op{{Code: OpMask, Text: secret}}}
	return h.inJSON(arguments), nil
}
