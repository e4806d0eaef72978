package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"

	"github.com/seed-0906e6bc/mneme/engine/rawjson"
)

// errBody refuses a body that two readers could read differently, or not at all.
var errBody = errors.New("the body must be a JSON object that names no member twice")

// maxModel bounds the name of a model in a form, in bytes.
const maxModel = 256

// Model is the model that a request names, "" where it names none. The body of a route may be a form with files, such as
// that of a transcription. The error says what is wrong with a body.
func Model(contentType string, body []byte) (string, error) {
	media, parameters, err := mime.ParseMediaType(contentType)
	if err == nil && media == "multipart/form-data" {
		return modelInForm(body, parameters["boundary"])
	}
	if !json.Valid(body) {
		return "", errBody
	}
	o, twice, ok := rawjson.ReadObject(bytes.TrimSpace(body))
	if !ok || twice != nil {
		return "", errBody
	}
	return o.Text("model"), nil
}

func modelInForm(body []byte, boundary string) (string, error) {
	for parts := multipart.NewReader(bytes.NewReader(body), boundary); ; {
		part, err := parts.NextPart()
		if err == io.EOF {
			return "", nil
		}
		if err != nil {
			return "", errors.New("the body must be the form that its content type says")
		}
		if part.FormName() != "model" {
			continue
		}
		name, err := io.ReadAll(io.LimitReader(part, maxModel+1))
		if err != nil || len(name) > maxModel {
			return "", errors.New("the name of the model must have at most 256 bytes")
		}
		return string(name), nil
	}
}
