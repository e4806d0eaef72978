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
	maxNamespacePart  = 128 // bytes
	maxNamespace      = 512 // bytes of its path
)

// A namespace's path has a "/" before each part. The full name of an id in a namespace is the path, "!" and the id. Ids
// do not contain these characters, so a full name is never an id, and all ids in a namespace sort before those in the
// namespaces below it.
var (
	escapePart   = strings.NewReplacer("%", "%25", "/", "%2F", "!", "%21")
	unescapePart = strings.NewReplacer("%25", "%", "%2F", "/", "%21", "!")
)

// NamespacePath returns the prefix of the full names of all ids in a namespace and below it; "" for the namespace
// without parts, whose full names are the ids themselves.
func NamespacePath(namespace []string) string {
	var path strings.Builder
	for _, part := range namespace {
		path.WriteByte('/')
		path.WriteString(escapePart.Replace(part))
	}
	return path.String()
}

// ReadNamespace parses a namespace as a header or a flag has it: its names, outermost first, each escaped as a segment of
// a URL's path, separated by "/". It returns invalid_value for a wrong escape, and the errors of CheckNamespace.
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
	return namespace, CheckNamespace(field, namespace)
}

// ParseNamespacePath returns the namespace with the given path. ok is false if there is none.
func ParseNamespacePath(path string) (namespace []string, ok bool) {
	if path == "" {
		return nil, true
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		namespace = append(namespace, unescapePart.Replace(part))
	}
	return namespace, NamespacePath(namespace) == path && CheckNamespace("namespace", namespace) == nil
}

// FullName returns the full name of an id in a namespace.
func FullName(namespace []string, id string) string {
	if len(namespace) == 0 {
		return id
	}
	return NamespacePath(namespace) + "!" + id
}

// SplitFullName splits a full name into namespace and id.
func SplitFullName(name string) (namespace []string, id string) {
	path, id, ok := strings.Cut(name, "!")
	if !ok {
		return nil, name
	}
	namespace, _ = ParseNamespacePath(path)
	return namespace, id
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

// PathWithin reports whether the namespace with a path is the one with the other path, or below it.
func PathWithin(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '/')
}

// ValidFullName reports whether something may be stored under this full name.
func ValidFullName(name string) bool {
	path, id, ok := strings.Cut(name, "!")
	if !ok {
		return ValidID(name)
	}
	_, valid := ParseNamespacePath(path)
	return valid && path != "" && ValidID(id)
}

// InNamespace reports whether a full name is in the namespace with the given path, or below it.
func InNamespace(name, path string) bool {
	rest, ok := strings.CutPrefix(name, path)
	return ok && (path == "" || strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "!"))
}

// CheckNamespace returns too_many, too_long or invalid_value for an invalid namespace.
func CheckNamespace(field string, namespace []string) error {
	blank := func(part string) bool {
		return strings.TrimSpace(part) == "" || len(part) > maxNamespacePart || !utf8.ValidString(part) ||
			strings.ContainsFunc(part, unicode.IsControl)
	}
	switch {
	case len(namespace) > maxNamespaceParts:
		return fault.InvalidField(field, "too_many", "must be at most %d parts", maxNamespaceParts)
	case slices.ContainsFunc(namespace, blank):
		return fault.InvalidField(field, "invalid_value",
			"each part must be 1 to %d bytes without control characters, not blank", maxNamespacePart)
	case len(NamespacePath(namespace)) > maxNamespace:
		return fault.InvalidField(field, "too_long", "must be at most %d bytes in all", maxNamespace)
	}
	return nil
}
