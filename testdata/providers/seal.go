package providers

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
)

// sealKey signs the opaque values that the server makes. It is not a secret; it only prevents tests from making valid
// signatures by accident.
var sealKey = []byte("mneme test providers")

// seal encodes a value as opaque text that open accepts only if it was not changed.
func seal(v any) string {
	text := encode(v)
	mac := hmac.New(sha256.New, sealKey)
	mac.Write(text)
	return base64.StdEncoding.EncodeToString(append(mac.Sum(nil)[:16], text...))
}

// open decodes the text made by seal.
func open(sealed string, v any) error {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil || len(raw) < 16 {
		return errors.New("not sealed here")
	}
	mac := hmac.New(sha256.New, sealKey)
	mac.Write(raw[16:])
	if !bytes.Equal(mac.Sum(nil)[:16], raw[:16]) {
		return errors.New("changed")
	}
	return json.Unmarshal(raw[16:], v)
}

// digest returns a short hash of some texts.
func digest(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		var size [8]byte
		for i, n := 0, len(text); i < 8; i, n = i+1, n>>8 {
			size[i] = byte(n)
		}
		h.Write(size[:])
		h.Write([]byte(text))
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}
