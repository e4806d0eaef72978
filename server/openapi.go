package server

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// proseFiles holds what neither the table of routes nor Go types can say: summaries, descriptions, constraints and
// examples. common.yaml is the description's frame; each of the others holds one tag's operations and schemas.
//
//go:embed openapi
var proseFiles embed.FS

// prose is one of the files in proseFiles.
type prose struct {
	Tag        tag
	Operations map[string]*operationProse // by operationId
	Schemas    map[string]any
}

type tag struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// operationProse is the part of a file that describes one operation.
type operationProse struct {
	Summary     string
	Description string
	Answers     map[int]string // the description of each success, by status
	Fails       []int          // statuses of failures; 401, 403 and default follow from the route
	Parameters  []any          // parameters other than path, tenant, limit, cursor and Idempotency-Key, which follow from the route
	Body        any            // content by media type, if no Go type describes the body
	Content     any            // content by media type, if no Go type describes the response
	Example     any            // an example of the body
	Answer      any            // an example of the response
	Responses   map[string]any // responses that differ from those of other operations, by status

	tag string
}

// description returns the OpenAPI documents of the server. They are built once per process.
var description = sync.OnceValues(func() (described, error) {
	routes := new(Server).table()
	doc, err := describe(routes)
	if err != nil {
		return described{}, fmt.Errorf("describing the routes: %w", err)
	}
	d := described{doc: doc}
	foreign := map[string]bool{}
	for _, r := range routes {
		foreign[r.path] = r.foreign()
	}
	if d.text, err = documentOf(doc, func(path string) bool { return !foreign[path] }); err != nil {
		return described{}, err
	}
	d.foreign, err = documentOf(doc, func(path string) bool { return foreign[path] })
	return d, err
})

// described is the description of all routes. It is served as two documents, because generators of clients fail on
// bodies of which another protocol says what they are.
type described struct {
	doc     map[string]any
	text    []byte // Mneme's own routes, as /openapi.json serves them
	foreign []byte // the proxy and MCP, as /openapi-proxy.json serves them
}

// foreign reports whether another protocol defines the bodies of a route.
func (r line) foreign() bool { return r.proxied != nil || r.path == "/mcp" }

// documentOf returns the text of the part of doc that describes the paths which has selects: with their tags and
// the components that they use.
func documentOf(doc map[string]any, has func(path string) bool) ([]byte, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	paths := out["paths"].(map[string]any)
	maps.DeleteFunc(paths, func(path string, _ any) bool { return !has(path) })
	used := map[string]bool{}
	components := out["components"].(map[string]any)
	markUsed(paths, components, used)
	for kind, named := range components {
		if kind != "securitySchemes" {
			maps.DeleteFunc(named.(map[string]any), func(name string, _ any) bool { return !used[kind+"/"+name] })
		}
	}
	out["tags"] = slices.DeleteFunc(out["tags"].([]any), func(t any) bool {
		return !used["tags/"+t.(map[string]any)["name"].(string)]
	})
	return json.Marshal(out)
}

// markUsed marks the tags of the operations below node, and the components to which it refers, as kind/name.
func markUsed(node any, components map[string]any, used map[string]bool) {
	switch node := node.(type) {
	case map[string]any:
		if ref, ok := node["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/components/")
			if !used[name] {
				used[name] = true
				kind, id, _ := strings.Cut(name, "/")
				markUsed(components[kind].(map[string]any)[id], components, used)
			}
		}
		if tags, ok := node["tags"].([]any); ok && node["operationId"] != nil {
			used["tags/"+tags[0].(string)] = true
		}
		for _, child := range node {
			markUsed(child, components, used)
		}
	case []any:
		for _, child := range node {
			markUsed(child, components, used)
		}
	}
}

// describe returns the OpenAPI document of the routes.
func describe(routes []line) (map[string]any, error) {
	doc := map[string]any{}
	if err := readProse("common.yaml", &doc); err != nil {
		return nil, err
	}
	files, err := fs.Glob(proseFiles, "openapi/*.yaml")
	if err != nil {
		return nil, err
	}
	var tags []tag
	operations := map[string]*operationProse{}
	schemas := map[string]any{}
	for _, name := range files {
		name = strings.TrimPrefix(name, "openapi/")
		if name == "common.yaml" {
			continue
		}
		var p prose
		if err := readProse(name, &p); err != nil {
			return nil, err
		}
		tags = append(tags, p.Tag)
		for id, o := range p.Operations {
			o.tag = p.Tag.Name
			operations[id] = o
		}
		maps.Copy(schemas, p.Schemas)
	}
	doc["tags"] = tags
	if doc["paths"], err = paths(routes, operations); err != nil {
		return nil, err
	}
	made, err := typeSchemas(schemas)
	if err != nil {
		return nil, err
	}
	components := doc["components"].(map[string]any)["schemas"].(map[string]any)
	maps.Copy(components, schemas)
	maps.Copy(components, made)
	return doc, nil
}

func readProse(name string, into any) error {
	f, err := proseFiles.Open("openapi/" + name)
	if err != nil {
		return err
	}
	defer f.Close()
	dec := yaml.NewDecoder(f)
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

// paths describes all routes. Routes under /agent/boards share the prose of the same routes under /boards, and the
// proxy's routes under /p share that of the routes under /v1. It fails if a route has no prose or prose has no route.
func paths(routes []line, operations map[string]*operationProse) (map[string]map[string]any, error) {
	out := map[string]map[string]any{}
	unused := maps.Clone(operations)
	for _, r := range routes {
		id := r.proseID()
		p := operations[id]
		if p == nil {
			return nil, fmt.Errorf("nothing is said of %s", r.id)
		}
		delete(unused, id)
		o, err := operationOf(r, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.id, err)
		}
		if out[r.path] == nil {
			out[r.path] = map[string]any{}
		}
		out[r.path][strings.ToLower(r.method)] = o
	}
	for id := range unused {
		return nil, fmt.Errorf("%s is described and not served", id)
	}
	return out, nil
}

// proseID returns the operationId of a route in the prose.
func (r line) proseID() string {
	for prefix, path := range map[string]string{"agent": "/agent/boards", "inProject": "/p/{project}/v1",
		"inSession": "/p/{project}/s/{session}/v1"} {
		if o, ok := strings.CutPrefix(r.id, prefix); ok && strings.Contains(r.path, path) {
			return strings.ToLower(o[:1]) + o[1:]
		}
	}
	return r.id
}

// operationOf returns the description of one route.
func operationOf(r line, p *operationProse) (map[string]any, error) {
	out := map[string]any{"operationId": r.id, "tags": []string{p.tag}, "summary": p.Summary}
	text := p.Description
	if r.role == open {
		out["security"] = []any{}
	} else {
		text = strings.TrimSpace(strings.TrimSpace(text) + " Role `" + r.role.String() + "`.")
	}
	if text != "" {
		out["description"] = text
	}
	if parameters := parametersOf(r, p); len(parameters) > 0 {
		out["parameters"] = parameters
	}
	if r.takesBody {
		body, err := contentOf(r.request, r.mediaType(), p.Body, p.Example)
		if err != nil {
			return nil, err
		}
		out["requestBody"] = map[string]any{"required": !r.bodyOptional, "content": body}
	}
	responses, err := responsesOf(r, p)
	out["responses"] = responses
	return out, err
}

var inPath = regexp.MustCompile(`\{(\w+)\}`)

// parametersOf lists a route's parameters. Parameters that follow from the route are components.
func parametersOf(r line, p *operationProse) []any {
	ref := func(name string) any { return map[string]any{"$ref": "#/components/parameters/" + name + "Param"} }
	own := func(name string) bool {
		return slices.ContainsFunc(p.Parameters, func(q any) bool { return q.(map[string]any)["name"] == name })
	}
	var out []any
	for _, m := range inPath.FindAllStringSubmatch(r.path, -1) {
		if !own(m[1]) {
			out = append(out, ref(m[1]))
		}
	}
	if open < r.role && r.role < root && !r.keyAlone && r.proxied == nil {
		out = append(out, ref("tenant"))
	}
	if r.proxied != nil {
		for _, name := range []string{"mnemeKey", "mnemeProject", "mnemeMode"} {
			out = append(out, ref(name))
		}
	}
	out = append(out, p.Parameters...)
	if r.list || r.limited {
		out = append(out, ref("limit"))
	}
	if r.list && !own("cursor") {
		out = append(out, ref("cursor"))
	}
	if r.stores {
		out = append(out, ref("idempotencyKey"))
	}
	return out
}

// contentOf describes a body by its Go type, or as in the prose if it has no type.
func contentOf(t reflect.Type, media string, said, example any) (any, error) {
	if said != nil {
		if m, ok := said.(map[string]any); ok && example != nil {
			m[media].(map[string]any)["example"] = example
		}
		return said, nil
	}
	name := componentOf(t)
	if name == "" {
		return nil, fmt.Errorf("%s is no component, and the prose does not say its content", t)
	}
	content := map[string]any{"schema": refTo(name)}
	if example != nil {
		content["example"] = example
	}
	return map[string]any{media: content}, nil
}

// componentOf returns the name of the component that describes a type, or "" if there is none.
func componentOf(t reflect.Type) string {
	if d, ok := reflect.Zero(t).Interface().(interface{ described() reflect.Type }); ok {
		t = d.described()
	}
	i := slices.IndexFunc(namedSchemas, func(n namedSchema) bool { return n.typ == t })
	if i < 0 {
		return ""
	}
	return namedSchemas[i].name
}

// failures maps statuses to the components that describe failures.
var failures = map[int]string{
	http.StatusBadRequest: "BadRequest", http.StatusUnauthorized: "Unauthorized", http.StatusForbidden: "Forbidden",
	http.StatusNotFound: "NotFound", http.StatusConflict: "Conflict", http.StatusGone: "Gone",
	http.StatusPreconditionFailed:    "Precondition",
	http.StatusRequestEntityTooLarge: "TooLarge", http.StatusUnprocessableEntity: "Invalid",
	http.StatusServiceUnavailable: "Unavailable", http.StatusInsufficientStorage: "NoSpace",
}

// responsesOf describes a route's responses.
func responsesOf(r line, p *operationProse) (map[string]any, error) {
	other := "Failure"
	if r.proxied != nil {
		other = "Proxied"
	}
	out := map[string]any{"default": map[string]any{"$ref": "#/components/responses/" + other}}
	fails := slices.Clone(p.Fails)
	if r.role > open {
		fails = append(fails, http.StatusUnauthorized)
	}
	if r.role > reader || r.console || r.keyAlone {
		fails = append(fails, http.StatusForbidden)
	}
	for _, status := range fails {
		if failures[status] == "" {
			return nil, fmt.Errorf("no component describes the status %d", status)
		}
		name := failures[status]
		if r.proxied != nil {
			name = other
		}
		out[strconv.Itoa(status)] = map[string]any{"$ref": "#/components/responses/" + name}
	}
	if p.Answers[r.status] == "" {
		return nil, fmt.Errorf("the prose does not say what %d answers", r.status)
	}
	for status, words := range p.Answers {
		response := map[string]any{"description": words}
		if r.response != reflect.TypeFor[nothing]() {
			content, err := contentOf(r.response, jsonType, p.Content, p.Answer)
			if err != nil {
				return nil, err
			}
			response["content"] = content
		}
		out[strconv.Itoa(status)] = response
	}
	maps.Copy(out, p.Responses)
	return out, nil
}
