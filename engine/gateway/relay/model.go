package relay

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
)

// maxModel limits the name of a model, in bytes, because decisions and metrics contain it.
const maxModel = 256

var errModel = errors.New("the name of the model must have at most 256 bytes")

// ModelInJSON checks the model that a JSON body names.
func ModelInJSON(name string) (string, error) {
	if len(name) > maxModel {
		return "", errModel
	}
	return name, nil
}

// IsForm reports whether a body is a form with files, such as that of a transcription. All other bodies are JSON.
func IsForm(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "multipart/form-data"
}

// ModelInForm returns the model that a form names, or "" if it names none. The error says what is wrong with the form.
func ModelInForm(contentType string, body []byte) (string, error) {
	_, parameters, _ := mime.ParseMediaType(contentType)
	for parts := multipart.NewReader(bytes.NewReader(body), parameters["boundary"]); ; {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
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
			return "", errModel
		}
		return string(name), nil
	}
}
