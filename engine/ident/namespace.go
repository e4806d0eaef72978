package ident

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/fault"
)

// The limits of a namespace.
const (
	maxNamespaceParts = 16
	maxNamespace      = 512 // bytes of its path
)

// A namespace's path has a "/" before each part. The full name of an id in a namespace is the path, "!" and the id. In
// parts and ids, these characters are escaped, so no id reaches into a namespace, and all ids in a namespace sort before
// those in the namespaces below it.
var (
	escapePart   = strings.NewReplacer("%", "%25", "/", "%2F", "!", "%21")
	unescapePart = strings.NewReplacer("%25", "%", "%2F", "/", "%21", "!")
)

// NamespacePath returns the prefix of the full names of all ids in a namespace and below it; "" for the namespace
// without parts, whose full names are the escaped ids.
func NamespacePath(namespace []string) string {
	var path strings.Builder
	for _, part := range namespace {
		path.WriteByte('/')
		path.WriteString(escapePart.Replace(part))
	}
	return path.String()
}

// ReadNamespace parses a namespace as a header or a flag has it: its names, outermost first, each escaped as a segment of
// a URL's path, separated by "/". It returns invalid_value for a wrong escape, and the errors of CheckStoredNamespace.
func ReadNamespace(field, text string) (namespace []string, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, "/") {
		name, err := url.PathUnescape(part)
		if err != nil {
			return nil, fault.InvalidField(field, "invalid_value", "must be names that are escaped as in a URL's path")
		}
		namespace = append(namespace, name)
	}
	return namespace, CheckStoredNamespace(field, namespace)
}

// ParseNamespacePath returns the namespace with the given path. ok is false if there is none.
func ParseNamespacePath(path string) (namespace []string, ok bool) {
	if path == "" {
		return nil, true
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		namespace = append(namespace, unescapePart.Replace(part))
	}
	return namespace, NamespacePath(namespace) == path && CheckStoredNamespace("namespace", namespace) == nil
}

// FullName returns the full name of an id in a namespace.
func FullName(namespace []string, id string) string {
	id = escapePart.Replace(id)
	if len(namespace) == 0 {
		return id
	}
	return NamespacePath(namespace) + "!" + id
}

// SplitFullName splits a full name into namespace and id.
func SplitFullName(name string) (namespace []string, id string) {
	path, id, ok := strings.Cut(name, "!")
	if !ok {
		return nil, unescapePart.Replace(name)
	}
	namespace, _ = ParseNamespacePath(path)
	return namespace, unescapePart.Replace(id)
}

// PathOf returns the path of the namespace in a full name.
func PathOf(name string) string {
	path, _, ok := strings.Cut(name, "!")
	if !ok {
		return ""
	}
	return path
}

// Below reports whether a namespace is the other one, or below it.
func Below(namespace, other []string) bool {
	return len(namespace) >= len(other) && slices.Equal(namespace[:len(other)], other)
}

// PathWithin reports whether a namespace is the other one or below it, given both paths.
func PathWithin(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '/')
}

// ValidFullName reports whether something may be stored under this full name.
func ValidFullName(name string) bool {
	path, escaped, inside := strings.Cut(name, "!")
	if !inside {
		path, escaped = "", name
	}
	_, valid := ParseNamespacePath(path)
	id := unescapePart.Replace(escaped)
	return valid && (path != "") == inside && ValidID(id) && escapePart.Replace(id) == escaped
}

// InNamespace reports whether a full name is in the namespace with the given path, or below it.
func InNamespace(name, path string) bool {
	rest, ok := strings.CutPrefix(name, path)
	return ok && (path == "" || strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "!"))
}

// CheckNamespace returns too_many, too_long or invalid_value for a namespace in which nothing may be stored. Its names
// follow the rule of ids, except that they may be "." and "..", because they are not segments of URL paths.
func CheckNamespace(field string, namespace []string) error {
	for _, name := range namespace {
		if len(name) <= MaxID && !ValidID(name) {
			return fault.InvalidField(field, "invalid_value", "each name must be 1 to %d bytes of printable UTF-8, not blank",
				MaxID)
		}
	}
	return CheckStoredNamespace(field, namespace)
}

// CheckStoredNamespace is CheckNamespace for looking something up: names that an earlier version stored may contain format
// characters.
func CheckStoredNamespace(field string, namespace []string) error {
	unusable := func(name string) bool {
		return strings.TrimSpace(name) == "" || len(name) > MaxID || !utf8.ValidString(name) ||
			strings.ContainsFunc(name, unicode.IsControl)
	}
	switch {
	case len(namespace) > maxNamespaceParts:
		return fault.InvalidField(field, "too_many", "must be at most %d names", maxNamespaceParts)
	case slices.ContainsFunc(namespace, unusable):
		return fault.InvalidField(field, "invalid_value", "each name must be 1 to %d bytes of printable UTF-8, not blank",
			MaxID)
	case len(NamespacePath(namespace)) > maxNamespace:
		return fault.InvalidField(field, "too_long", "must be at most %d bytes in all", maxNamespace)
	}
	return nil
}
