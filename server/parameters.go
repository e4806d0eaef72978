package server

import (
	"crypto/sha256"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/server/strictjson"
)

const (
	// defaultLimit is the number of items in a list if the query has no limit; maxLimit is the largest limit.
	defaultLimit = 50
	maxLimit     = 1000
	// maxOnceKey is the maximum length of an Idempotency-Key, in bytes.
	maxOnceKey = 255
)

// path returns a decoded copy of a path parameter.
func (x *exchange) path(name string) string { return decodedID(x.c.Params(name)) }

// header returns the decoded id in one of Mneme's own headers, or "" if the header is absent.
func (x *exchange) header(name string) string { return decodedID(x.headerText(name)) }

func (x *exchange) headerText(name string) string {
	return strings.TrimSpace(string(x.c.Request().Header.Peek(name)))
}

// decodedID returns a copy of an id from a path or a header. It returns other text unchanged, as checkIDs has refused it.
func decodedID(text string) string {
	text = strings.Clone(text)
	id, err := ident.ReadID("", text)
	if err != nil {
		return text
	}
	return id
}

// checkIDs returns invalid_id if a parameter of the path, or one of Mneme's headers, is not the percent-encoded form of an
// id. A route of the proxy ends with the provider's path, which is not checked.
func (x *exchange) checkIDs() error {
	for _, name := range [...]string{headerProject, headerSession, headerAgent} {
		text := x.headerText(name)
		if _, err := ident.ReadID(name, text); err != nil && text != "" {
			return err
		}
	}
	for _, name := range x.c.Route().Params {
		if x.route.proxied != nil && name != "project" && name != "session" {
			continue
		}
		if _, err := ident.ReadID(name, x.c.Params(name)); err != nil {
			return err
		}
	}
	return nil
}

// query returns a copy of a query parameter, or "" if it is absent.
func (x *exchange) query(name string) string {
	return string(x.c.Context().QueryArgs().Peek(name))
}

// queries returns copies of all values of a parameter that may be repeated.
func (x *exchange) queries(name string) []string {
	var out []string
	for _, v := range x.c.Context().QueryArgs().PeekMulti(name) {
		out = append(out, string(v))
	}
	return out
}

// queryParameter holds what the OpenAPI description says about a query parameter.
type queryParameter struct {
	repeatable bool // it is a list
	valued     bool // it is an optional number, boolean or time, so it must not be empty
}

// dayOrTime is the format in the description of texts that are a day or a time; there is no standard one.
const dayOrTime = "date-or-date-time"

// queryOf returns the query parameters of a route according to the OpenAPI description.
func (d described) queryOf(r line) map[string]queryParameter {
	shared := d.doc["components"].(map[string]any)["parameters"].(map[string]any)
	operation := d.doc["paths"].(map[string]map[string]any)[r.path][strings.ToLower(r.method)].(map[string]any)
	out := map[string]queryParameter{}
	parameters, _ := operation["parameters"].([]any)
	for _, p := range parameters {
		said := p.(map[string]any)
		if ref, ok := said["$ref"].(string); ok {
			said = shared[strings.TrimPrefix(ref, "#/components/parameters/")].(map[string]any)
		}
		if said["in"] == "query" {
			schema, _ := said["schema"].(map[string]any)
			kind, _ := schema["type"].(string)
			text := kind == "string" && (schema["format"] == nil || schema["format"] == dayOrTime)
			out[said["name"].(string)] = queryParameter{repeatable: kind == "array",
				valued: kind != "" && kind != "array" && !text && said["required"] != true}
		}
	}
	return out
}

// checkQuery refuses query parameters that the route does not have, that are repeated, or that are not UTF-8: without
// it, a filter with a misspelt name would be ignored and return everything. It fails with unknown_parameter,
// duplicate_parameter, invalid_utf8 or invalid_value.
func (x *exchange) checkQuery() error {
	args := x.c.Context().QueryArgs()
	if args.Len() == 0 {
		return nil
	}
	var faults []fault.FieldError
	seen := map[string]bool{}
	for key, value := range args.All() {
		name := string(key)
		parameter, known := x.route.query[name]
		known = known || name == "tenant" // operators may name it on routes without a tenant, too
		var f fault.FieldError
		switch {
		case name == "" && len(value) == 0: // an extra &
			continue
		case !utf8.Valid(key) || !utf8.Valid(value):
			f = fault.FieldError{Field: name, Code: "invalid_utf8", Detail: "must be UTF-8"}
		case !known:
			f = fault.FieldError{Field: name, Code: "unknown_parameter",
				Detail: "unknown parameter" + x.route.meant(name)}
		case parameter.valued && len(value) == 0:
			f = fault.FieldError{Field: name, Code: "invalid_value", Detail: "has no value; leave it out instead"}
		case seen[name] && !parameter.repeatable:
			f = fault.FieldError{Field: name, Code: "duplicate_parameter", Detail: "given more than once"}
		default:
			seen[name] = true
			continue
		}
		seen[name] = true
		if len(faults) < strictjson.MaxFaults {
			faults = append(faults, f)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	first := faults[0]
	return &fault.Error{Kind: fault.Invalid, Code: first.Code, Fields: faults,
		Detail: fault.Words("%s: %s", first.Field, first.Detail)}
}

// meant returns a hint for an unknown parameter: the name that may have been meant, or else all names that the route
// has.
func (r *route) meant(name string) string {
	if near := strictjson.DidYouMean(name, maps.Keys(r.query)); near != "" {
		return near
	}
	if len(r.query) == 0 {
		return "; this route takes none"
	}
	return "; this route takes " + strings.Join(slices.Sorted(maps.Keys(r.query)), ", ")
}

// required returns a mandatory query parameter. It fails with parameter_missing if it is absent.
func (x *exchange) required(name string) (string, error) {
	if v := x.query(name); v != "" {
		return v, nil
	}
	p := refuse(http.StatusBadRequest, "parameter_missing", "%s: send it in the query of the URL", name)
	p.Errors = []fault.FieldError{{Field: name, Code: "required", Detail: "must be given"}}
	return "", p
}

// queryBool parses a boolean parameter. It returns nil if the parameter is absent or null.
func (x *exchange) queryBool(name string) (*bool, error) {
	switch text := x.query(name); text {
	case "", "null":
		return nil, nil
	case "true", "false":
		yes := text == "true"
		return &yes, nil
	}
	return nil, invalidQuery(name, "invalid_value", "must be true, false or null")
}

// queryTime parses an RFC 3339 time, in UTC if it has no zone. It returns nil if the parameter is absent.
func (x *exchange) queryTime(name string) (*time.Time, error) {
	text := x.query(name)
	if text == "" {
		return nil, nil
	}
	text = strings.Replace(text, " ", "+", 1) // an unescaped plus in a zone arrives as a space
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			t = t.UTC()
			return &t, nil
		}
	}
	return nil, invalidQuery(name, "invalid_time", "must be an RFC 3339 time, for example 2026-03-05T12:00:00Z")
}

// newestFirst parses the parameter order, asc or desc. It returns absent if the parameter is absent.
func (x *exchange) newestFirst(absent bool) (bool, error) {
	switch x.query("order") {
	case "":
		return absent, nil
	case "asc":
		return false, nil
	case "desc":
		return true, nil
	}
	return false, invalidQuery("order", "invalid_value", "must be asc or desc")
}

// truth parses a boolean parameter, false if it is absent. It fails with invalid_value.
func (x *exchange) truth(name string) (bool, error) {
	switch x.query(name) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, invalidQuery(name, "invalid_value", "must be true or false")
}

// lastEventID returns the id of the last event that a stream's reader received before it reconnected.
func (x *exchange) lastEventID() string { return string(x.c.Request().Header.Peek("Last-Event-ID")) }

// base returns the URL by which the caller reaches this server. It trusts headers that a caller can forge, so it may
// only be used for links in that caller's own response.
func (x *exchange) base() string {
	h := &x.c.Request().Header
	first := func(name string) string {
		value, _, _ := strings.Cut(string(h.Peek(name)), ",")
		return strings.TrimSpace(value)
	}
	scheme, host := "http", first("X-Forwarded-Host")
	if first("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	if host == "" {
		host = string(x.c.Request().Host())
	}
	return scheme + "://" + host
}

// invalidQuery returns the problem for an invalid parameter or header, which its errors field names.
func invalidQuery(name, code, detail string) error {
	return &fault.Error{Kind: fault.Invalid, Code: code, Detail: name + ": " + detail,
		Fields: []fault.FieldError{{Field: name, Code: code, Detail: detail}}}
}

// readPage parses limit and cursor. It fails with out_of_range if limit is not from 1 to maxLimit.
func (x *exchange) readPage() error {
	x.page = records.Page{Limit: defaultLimit, Cursor: x.query("cursor")}
	if s := x.query("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxLimit {
			return invalidQuery("limit", "out_of_range", "must be an integer from 1 to "+strconv.Itoa(maxLimit))
		}
		x.page.Limit = n
	}
	return nil
}

// readOnce gives the engine the Idempotency-Key and a digest of the request, so that a repeated request is stored
// only once. It fails with too_long for a key of more than maxOnceKey bytes.
func (x *exchange) readOnce() error {
	key := string(x.c.Request().Header.Peek("Idempotency-Key"))
	if key == "" {
		x.once = ident.Once{}
		return nil
	}
	if len(key) > maxOnceKey {
		return invalidQuery("Idempotency-Key", "too_long", "must be at most "+strconv.Itoa(maxOnceKey)+" bytes")
	}
	x.once.Key = key
	h := sha256.New()
	for _, part := range [...]string{x.c.Method(), "\n", x.c.Path(), "\n"} {
		h.Write([]byte(part))
	}
	h.Write(x.c.Request().URI().QueryString())
	h.Write([]byte("\n"))
	h.Write(x.raw)
	h.Sum(x.once.Body[:0])
	return nil
}
