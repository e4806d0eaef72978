// Package manifest reads and writes the manifest of a policy module: JSON in a custom WebAssembly section named
// mneme.policy, which Go compilers cannot emit themselves.
package manifest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Section is the custom section's name.
const Section = "mneme.policy"

var header = []byte("\x00asm\x01\x00\x00\x00")

// Errors of modules and manifests.
var (
	ErrNotModule = errors.New("not a WebAssembly 1.0 module")
	ErrNone      = errors.New("module carries no manifest")
	ErrManifest  = errors.New(`manifest must be a JSON object with "abi" and "hooks"`)
)

// Set returns the module with the compacted manifest as its last section. It replaces any existing manifest. The same
// module and manifest always give the same bytes.
func Set(module, manifest []byte) ([]byte, error) {
	var required struct {
		ABI   string   `json:"abi"`
		Hooks []string `json:"hooks"`
	}
	if err := json.Unmarshal(manifest, &required); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if required.ABI == "" || len(required.Hooks) == 0 {
		return nil, ErrManifest
	}
	sections, err := split(module)
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(bytes.Clone(header))
	for _, s := range sections {
		if !s.isManifest {
			out.Write(s.raw)
		}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, manifest); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	body := append(binary.AppendUvarint(nil, uint64(len(Section))), Section...)
	body = append(body, compact.Bytes()...)
	out.WriteByte(0)
	out.Write(binary.AppendUvarint(nil, uint64(len(body))))
	out.Write(body)
	return out.Bytes(), nil
}

// Get returns the manifest of a module, or ErrNone if it has none.
func Get(module []byte) ([]byte, error) {
	sections, err := split(module)
	if err != nil {
		return nil, err
	}
	for _, s := range sections {
		if s.isManifest {
			return s.content, nil
		}
	}
	return nil, ErrNone
}

// section is one section of a module: raw includes its head; content is set only for a manifest.
type section struct {
	raw, content []byte
	isManifest   bool
}

func split(module []byte) ([]section, error) {
	rest, ok := bytes.CutPrefix(module, header)
	if !ok {
		return nil, ErrNotModule
	}
	var sections []section
	for len(rest) > 0 {
		body, n, ok := sized(rest[1:])
		if !ok {
			return nil, fmt.Errorf("%w: a section is cut short", ErrNotModule)
		}
		s := section{raw: rest[:1+n]}
		if rest[0] == 0 {
			name, n, ok := sized(body)
			if !ok {
				return nil, fmt.Errorf("%w: a custom section has no name", ErrNotModule)
			}
			s.isManifest, s.content = string(name) == Section, body[n:]
		}
		sections, rest = append(sections, s), rest[1+n:]
	}
	return sections, nil
}

// sized reads a length and as many bytes; n is the length of both together.
func sized(b []byte) (content []byte, n int, ok bool) {
	length, head := binary.Uvarint(b)
	if head <= 0 || length > uint64(len(b)-head) {
		return nil, 0, false
	}
	n = head + int(length)
	return b[head:n], n, true
}
