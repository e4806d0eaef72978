package server

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openAPIYAML []byte

// describe turns openapi.yaml into the JSON that /openapi.json serves.
func describe() ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openAPIYAML, &doc); err != nil {
		return nil, fmt.Errorf("reading openapi.yaml: %w", err)
	}
	return json.Marshal(doc)
}
