package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// documented is the part of the description that these tests read.
type documented struct {
	Paths map[string]map[string]json.RawMessage
}

type operation struct {
	OperationID string `json:"operationId"`
	Description string
	Tags        []string
	Security    *[]any
	Parameters  []parameter
	RequestBody *struct{ Required bool }
	Responses   map[string]json.RawMessage
}

type parameter struct {
	Ref  string `json:"$ref"`
	Name string
}

// describedText returns the description of all routes, which is served in two parts.
func describedText(t *testing.T) []byte {
	t.Helper()
	text, err := json.Marshal(descriptions(t).doc)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func descriptions(t *testing.T) described {
	t.Helper()
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func describedRoutes(t *testing.T) map[string]operation {
	t.Helper()
	raw := describedText(t)
	var d documented
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	out := map[string]operation{}
	for path, item := range d.Paths {
		var shared []parameter
		if p, ok := item["parameters"]; ok {
			if err := json.Unmarshal(p, &shared); err != nil {
				t.Fatal(err)
			}
		}
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var o operation
			if err := json.Unmarshal(raw, &o); err != nil {
				t.Fatalf("%s %s: %v", method, path, err)
			}
			o.Parameters = append(o.Parameters, shared...)
			out[strings.ToUpper(method)+" "+path] = o
		}
	}
	return out
}

// has reports whether an operation describes a parameter, directly or by reference.
func (o operation) has(name string) bool {
	return slices.ContainsFunc(o.Parameters, func(p parameter) bool {
		return p.Name == name || p.Ref == "#/components/parameters/"+name+"Param"
	})
}

// The description of each route matches the table of routes.
func TestRoutesAndDescriptionAgree(t *testing.T) {
	t.Parallel()
	described := describedRoutes(t)
	operations := map[string]string{}
	s := start(t)
	for _, r := range s.s.routes {
		name := r.method + " " + r.path
		o, ok := described[name]
		if !ok {
			t.Errorf("%s is not described", name)
			continue
		}
		delete(described, name)
		if other, ok := operations[o.OperationID]; ok || o.OperationID == "" {
			t.Errorf("%s has the operationId %q, and so has %q", name, o.OperationID, other)
		}
		operations[o.OperationID] = name

		ofTenant := r.role > ident.RoleNone && r.role < ident.RoleRoot && r.proxied == nil
		statuses := slices.Collect(maps.Keys(o.Responses))
		for what, agree := range map[string]bool{
			"security": (o.Security != nil) == (r.role == ident.RoleNone),
			"role": r.role == ident.RoleNone || strings.Contains(words(o.Description),
				"Role `"+r.role.String()+"`."),
			"success":         slices.Contains(statuses, strconv.Itoa(r.status)),
			"default":         slices.Contains(statuses, "default"),
			"401":             r.console || slices.Contains(statuses, "401") == (r.role > ident.RoleNone),
			"403":             slices.Contains(statuses, "403") == (r.role > ident.RoleReader || r.console || r.keyAlone),
			"body":            (o.RequestBody != nil) == r.takesBody,
			"required body":   o.RequestBody == nil || o.RequestBody.Required != r.bodyOptional,
			"Idempotency-Key": o.has("idempotencyKey") == r.stores,
			"limit":           o.has("limit") == (r.list || r.limited),
			"cursor":          o.has("cursor") == r.list,
			"tenant":          o.has("tenant") == (ofTenant && !r.keyAlone || strings.Contains(r.path, "{tenant}")),
		} {
			if !agree {
				t.Errorf("%s: table and description differ in %s", name, what)
			}
		}
		for part := range strings.SplitSeq(r.path, "/") {
			if parameter, ok := strings.CutPrefix(part, "{"); ok && !o.has(strings.TrimSuffix(parameter, "}")) {
				t.Errorf("%s: %s is not described", name, part)
			}
		}
	}
	for name := range described {
		t.Errorf("%s is described and not served", name)
	}
}

// words returns a text's words on one line.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// Each schema compiles, and each example in the description matches its schema.
func TestDescriptionIsSound(t *testing.T) {
	t.Parallel()
	raw := describedText(t)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	schemas := doc.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any)
	for name := range schemas {
		if _, err := c.Compile("openapi.json#/components/schemas/" + name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	examples := 0
	eachContent(doc, func(content map[string]any) {
		example, ok := content["example"]
		if !ok {
			return
		}
		examples++
		said := content["schema"].(map[string]any)
		ref, _ := said["$ref"].(string)
		schema, err := c.Compile("openapi.json" + ref)
		if err != nil {
			t.Errorf("%s: %v", ref, err)
		} else if err := schema.Validate(example); err != nil {
			t.Errorf("example of %s: %v", ref, err)
		}
	})
	if examples == 0 {
		t.Error("no example found")
	}
}

// eachContent visits every object that has a schema: the contents of requests and responses.
func eachContent(node any, visit func(map[string]any)) {
	switch node := node.(type) {
	case map[string]any:
		if _, ok := node["schema"].(map[string]any); ok {
			visit(node)
		}
		for _, child := range node {
			eachContent(child, visit)
		}
	case []any:
		for _, child := range node {
			eachContent(child, visit)
		}
	}
}

// Both documents are valid according to the OpenAPI Initiative's schema for version 3.1, and no route is in both.
func TestDescriptionIsOpenAPI(t *testing.T) {
	t.Parallel()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile("testdata/openapi-3.1.json")
	if err != nil {
		t.Fatal(err)
	}
	d := descriptions(t)
	seen := 0
	for _, text := range [][]byte{d.text, d.foreign} {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Error(err)
		}
		seen += len(doc.(map[string]any)["paths"].(map[string]any))
		doc.(map[string]any)["tags"] = []any{map[string]any{"description": "without a name"}}
		if schema.Validate(doc) == nil {
			t.Error("the schema takes what is not OpenAPI")
		}
	}
	if all := len(d.doc["paths"].(map[string]map[string]any)); seen != all {
		t.Errorf("%d paths in the two documents, %d in all", seen, all)
	}
}

// Generators of clients have no type for a value of several types, and take a parameter and a schema of the same name
// for the same thing.
func TestDescriptionIsForGenerators(t *testing.T) {
	t.Parallel()
	var doc map[string]any
	if err := json.Unmarshal(descriptions(t).text, &doc); err != nil {
		t.Fatal(err)
	}
	eachUnion(doc, "", func(at string, of any) { t.Errorf("%s has more than one type: %v", at, of) })
	names := map[string]string{}
	for kind, components := range doc["components"].(map[string]any) {
		for name := range components.(map[string]any) {
			if other, ok := names[strings.ToLower(name)]; ok {
				t.Errorf("%s is one of %s and of %s", name, kind, other)
			}
			names[strings.ToLower(name)] = kind
		}
	}
	found := 0
	eachUnion(map[string]any{"a": map[string]any{"type": []any{"integer", "string"}}, "b": map[string]any{"not": true},
		"c": map[string]any{"anyOf": []any{map[string]any{}, map[string]any{}}}}, "", func(string, any) { found++ })
	if found != 3 {
		t.Errorf("%d of 3 unions are found", found)
	}
}

// eachUnion visits the schemas that allow more than one type, apart from null.
func eachUnion(node any, at string, visit func(at string, of any)) {
	switch node := node.(type) {
	case map[string]any:
		for key, child := range node {
			list, _ := child.([]any)
			switch key {
			case "type", "anyOf", "oneOf", "allOf":
				others := slices.DeleteFunc(slices.Clone(list), func(one any) bool {
					m, _ := one.(map[string]any)
					return one == "null" || m["type"] == "null"
				})
				if len(others) > 1 || key == "allOf" && len(list) > 0 {
					visit(at, child)
				}
			case "not":
				visit(at, child)
			}
			if key != "example" && key != "examples" && key != "default" {
				eachUnion(child, at+"/"+key, visit)
			}
		}
	case []any:
		for i, child := range node {
			eachUnion(child, at+"/"+strconv.Itoa(i), visit)
		}
	}
}

// Each tag is declared once, with a description, and is used; each operation has a tag; each component is used.
func TestTagsAndComponentsAreInUse(t *testing.T) {
	t.Parallel()
	raw := describedText(t)
	var d struct {
		Tags       []tag
		Components map[string]map[string]any
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	used := map[string]int{}
	for name, o := range describedRoutes(t) {
		if len(o.Tags) != 1 {
			t.Errorf("%s has the tags %v", name, o.Tags)
		}
		for _, name := range o.Tags {
			used[name]++
		}
	}
	for _, tag := range d.Tags {
		if used[tag.Name] == 0 || tag.Description == "" {
			t.Errorf("tag %q: declared twice, not in use or not described", tag.Name)
		}
		delete(used, tag.Name)
	}
	if len(used) > 0 {
		t.Errorf("tags that are not declared: %v", used)
	}
	for kind, components := range d.Components {
		for name := range components {
			if kind != "securitySchemes" && !bytes.Contains(raw, []byte(`"#/components/`+kind+`/`+name+`"`)) {
				t.Errorf("%s %s is referred to nowhere", kind, name)
			}
		}
	}
}

func TestDescriptionIsServedUnchanged(t *testing.T) {
	t.Parallel()
	s := start(t)
	for range 3 { // the response buffer is reused in between
		for path, want := range map[string][]byte{"/openapi.json": descriptions(t).text, "/openapi-proxy.json": descriptions(t).foreign} {
			if a := s.do("GET", path, "", "Authorization", ""); a.status != 200 || string(a.body) != string(want) {
				t.Fatalf("%s: %d, %d bytes, want %d", path, a.status, len(a.body), len(want))
			}
		}
		s.do("POST", contextPath, `{"system":"`+strings.Repeat("x", 50_000)+`"}`)
	}
}
