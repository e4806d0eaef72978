package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
)

const schemaPath = "#/components/schemas/"

// refTo returns a reference to a component.
func refTo(name string) *jsonschema.Schema { return &jsonschema.Schema{Ref: schemaPath + name} }

// typeSchemas returns the components that are made from Go types, by name, with the prose's additions.
func typeSchemas(prose map[string]any) (map[string]any, error) {
	known := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		reflect.TypeFor[json.RawMessage](): {},
		// These types encode themselves as text, which the library does not detect.
		reflect.TypeFor[prefix.Place]():      {Type: "string", Pattern: "^[A-Za-z0-9_-]{43}$"},
		reflect.TypeFor[ident.Incarnation](): {Type: "string", Pattern: "^[0-9a-f]{16}$"},
		// The size of a Go integer is not part of the API.
		reflect.TypeFor[uint32](): {Type: "integer", Minimum: new(float64)},
		reflect.TypeFor[uint64](): {Type: "integer", Minimum: new(float64)},
	}
	for _, n := range namedSchemas {
		known[n.typ] = refTo(n.name)
	}
	out := map[string]any{}
	for _, n := range namedSchemas {
		schema, err := n.describe(known)
		for _, embedded := range n.embedded() {
			if said, ok := prose[embedded].(map[string]any); ok && err == nil {
				err = amend(schema, map[string]any{"properties": said["properties"]})
			}
		}
		if err == nil {
			err = amend(schema, prose[n.name])
		}
		if err != nil {
			return nil, fmt.Errorf("describing %s: %w", n.name, err)
		}
		if n.shape != sent {
			admitNull(schema)
		}
		out[n.name] = schema
	}
	return out, nil
}

// describe returns the type's own schema. It refers to other components by name.
func (n namedSchema) describe(known map[reflect.Type]*jsonschema.Schema) (map[string]any, error) {
	known = maps.Clone(known)
	delete(known, n.typ)
	for _, t := range anonymous(n.typ) { // the fields of an embedded type are listed as this type's own
		delete(known, t)
	}
	s, err := jsonschema.ForType(n.typ, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	return n.shape.fit(out, true), nil
}

// embedded returns the names of the components that this type embeds. Their prose also describes the fields here.
func (n namedSchema) embedded() []string {
	var out []string
	for _, t := range anonymous(n.typ) {
		if name := componentOf(t); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// anonymous returns the types that a struct embeds.
func anonymous(t reflect.Type) []reflect.Type {
	var out []reflect.Type
	if t.Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(t) {
			if f.Anonymous {
				out = append(out, f.Type)
			}
		}
	}
	return out
}

// fit corrects the library's schema of a Go type, because the library does not know how Mneme encodes and decodes: a
// nil slice is written as [], a nil pointer with omitempty is omitted, and only requests refuse unknown fields.
func (s shape) fit(node any, required bool) map[string]any {
	schema, ok := node.(map[string]any)
	if !ok { // it is true, which allows any value
		return map[string]any{}
	}
	null := stripNull(schema)
	if items, ok := schema["items"]; ok {
		schema["items"] = s.fit(items, true)
		null = false
	}
	if more, ok := schema["additionalProperties"]; ok {
		switch {
		case schema["properties"] == nil:
			schema["additionalProperties"] = s.fit(more, true)
		case s == sent:
			delete(schema, "additionalProperties")
		default:
			schema["additionalProperties"] = false
		}
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		names, _ := schema["required"].([]any)
		for name, p := range properties {
			properties[name] = s.fit(p, slices.Contains(names, any(name)))
		}
	}
	if s == patched {
		delete(schema, "required")
	}
	if null && required && s == sent {
		return orNull(schema)
	}
	return schema
}

// stripNull removes null from a schema's types and reports whether it was there.
func stripNull(schema map[string]any) bool {
	switch types := schema["type"].(type) {
	case string:
		if types == "null" { // next to a reference
			delete(schema, "type")
			return true
		}
	case []any:
		others := slices.DeleteFunc(slices.Clone(types), func(t any) bool { return t == "null" })
		switch len(others) {
		case 0:
			delete(schema, "type")
		case 1:
			schema["type"] = others[0]
		default:
			schema["type"] = others
		}
		return len(others) < len(types)
	}
	return false
}

// orNull returns the schema extended by null.
func orNull(schema map[string]any) map[string]any {
	kind, typed := schema["type"]
	if ref, ok := schema["$ref"]; ok {
		delete(schema, "$ref")
		schema["anyOf"] = []any{map[string]any{"$ref": ref}, map[string]any{"type": "null"}}
		return schema
	}
	switch kind := kind.(type) {
	case string:
		schema["type"] = []any{kind, "null"}
	case []any:
		schema["type"] = append(slices.Clone(kind), "null")
	}
	if enum, ok := schema["enum"].([]any); ok && typed {
		schema["enum"] = append(slices.Clone(enum), nil)
	}
	return schema
}

// admitNull allows null in each optional field of a request.
func admitNull(schema map[string]any) {
	if items, ok := schema["items"].(map[string]any); ok {
		admitNull(items)
	}
	names, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		p := p.(map[string]any)
		admitNull(p)
		if !slices.Contains(names, any(name)) {
			properties[name] = orNull(p)
		}
	}
}

// amend changes a schema according to its prose. It merges properties and items field by field; a string refers to
// the component of that name. Any other key replaces the schema's, and null removes it. Prose cannot add fields.
func amend(schema map[string]any, prose any) error {
	changes, _ := prose.(map[string]any)
	for key, change := range changes {
		if key != "properties" && key != "items" {
			schema[key] = change
			if change == nil {
				delete(schema, key)
			}
			if key == "$ref" {
				delete(schema, "type")
			}
			continue
		}
		if key == "items" {
			change, schema = map[string]any{key: change}, map[string]any{"properties": schema}
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, change := range change.(map[string]any) {
			old, ok := properties[name].(map[string]any)
			if !ok {
				return fmt.Errorf("there is no field %q", name)
			}
			if component, ok := change.(string); ok {
				properties[name] = map[string]any{"$ref": schemaPath + component}
				continue
			}
			if err := amend(old, change); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if key == "items" {
			schema = properties
		}
	}
	return nil
}
