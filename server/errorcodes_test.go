package server

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/fault"
)

// codeUses returns the error codes in source files, each with the kinds or statuses it is used with; "" if there is
// none.
func codeUses(t *testing.T) map[string]map[string]bool {
	t.Helper()
	uses := map[string]map[string]bool{}
	files := 0
	for _, root := range []string{".", "../engine"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if code, kind := codeIn(n); len(code) > 3 && kind != "Internal" {
					if uses[code] == nil {
						uses[code] = map[string]bool{}
					}
					uses[code][kind] = true
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Fatalf("saw %d files", files)
	}
	return uses
}

var (
	isCode    = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)
	codeMaker = regexp.MustCompile(`^(?i)(errorf|invalidField|refuse|invalidQuery|fault)$`)
)

// strictCodes are the constants of package strictjson.
var strictCodes = []string{"UnknownField", "DuplicateField", "WrongType", "Unreadable"}

// codeIn returns the code that a node creates an error with: a call such as errorf(Kind, "code", …), the field Code
// of an error, or a constant of package chat.
func codeIn(n ast.Node) (code, kind string) {
	switch n := n.(type) {
	case *ast.CallExpr:
		name := n.Fun
		if s, ok := name.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "fmt" {
				return "", ""
			}
			name = s.Sel
		}
		if id, ok := name.(*ast.Ident); !ok || !codeMaker.MatchString(id.Name) || len(n.Args) < 2 {
			return "", ""
		} else if strings.HasPrefix(strings.ToLower(id.Name), "invalid") {
			return literal(n.Args[1]), "Invalid"
		}
		return literal(n.Args[1]), last(n.Args[0])
	case *ast.CompositeLit:
		if name := last(n.Type); !strings.HasSuffix(name, "Error") || name == "ProviderError" {
			return "", ""
		}
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok && last(kv.Key) == "Kind" {
				kind = last(kv.Value)
			} else if ok && last(kv.Key) == "Code" {
				code = literal(kv.Value)
			}
		}
		return code, kind
	case *ast.ValueSpec:
		name := n.Names[0].Name
		if len(n.Values) == 1 && (strings.HasPrefix(name, "Code") || slices.Contains(strictCodes, name)) {
			return literal(n.Values[0]), ""
		}
	}
	return "", ""
}

func literal(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == gotoken.STRING {
		if s, err := strconv.Unquote(lit.Value); err == nil && isCode.MatchString(s) {
			return s
		}
	}
	return ""
}

// last returns the last name of an expression such as engine.NotFound.
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// codeLine is an entry of both tables together.
type codeLine struct {
	status          int
	meaning, remedy string
}

func codeLines(t *testing.T) map[string]codeLine {
	t.Helper()
	out := map[string]codeLine{}
	for _, c := range allCodes() {
		if _, twice := out[c.code]; twice || c.meaning == "" || c.remedy == "" {
			t.Errorf("%s stands twice in the table or is not explained", c.code)
		}
		out[c.code] = codeLine{c.status, c.meaning, c.remedy}
	}
	return out
}

// Every code in the sources is in the table, with the status that it is used with, and the table has no other codes.
func TestErrorCodesAreInUse(t *testing.T) {
	t.Parallel()
	lines, uses := codeLines(t), codeUses(t)
	for code, kinds := range uses {
		l, ok := lines[code]
		if !ok {
			t.Errorf("%s is not in the table", code)
			continue
		}
		for kind := range kinds {
			if status := statusNamed(kind); status != 0 && status != l.status {
				t.Errorf("%s is used with %s and stands in the table with %d", code, kind, l.status)
			}
		}
	}
	for code := range lines {
		if uses[code] == nil {
			t.Errorf("%s is in the table and nowhere used", code)
		}
	}
}

// statusNamed returns the status of a kind or of a constant of net/http, or 0 for any other name.
func statusNamed(name string) int {
	for kind, n := range map[fault.Kind]string{fault.BadRequest: "BadRequest", fault.Unauthorized: "Unauthorized",
		fault.Forbidden: "Forbidden", fault.NotFound: "NotFound", fault.Conflict: "Conflict", fault.Gone: "Gone", fault.Precondition: "Precondition",
		fault.TooLarge: "TooLarge", fault.Invalid: "Invalid", fault.Unavailable: "Unavailable",
		fault.NoSpace: "NoSpace"} {
		if n == name {
			return statusOf(kind)
		}
	}
	for status := 400; status < 600; status++ {
		if text := http.StatusText(status); text != "" && "Status"+strings.ReplaceAll(text, " ", "") == name {
			return status
		}
	}
	return 0
}

var update = flag.Bool("update", false, "write docs/ERRORS.md anew")

// docs/ERRORS.md matches the tables.
func TestErrorCodesAreDocumented(t *testing.T) {
	const file = "../docs/ERRORS.md"
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(`# Error codes

Every failed request gets an 'application/problem+json' response (RFC 9457). Programs should use 'code', which is stable.
'detail' says what was wrong, where, and what to do. 'errors' lists the fields or messages at fault, each with a code
from the table below. 'request_id' identifies the request in the log of the server. 'type' links to the entry of the code
on the page that each server serves at '/errors'.

'go generate ./server' prints this page from the tables in the source.

| code | status | meaning | what to do |
|---|---|---|---|
`, "'", "`"))
	lines := codeLines(t)
	for _, code := range slices.Sorted(maps.Keys(lines)) {
		l := lines[code]
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s |\n", code, l.status, l.meaning, l.remedy)
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != b.String() {
		t.Errorf("%s is not current (%v): go generate ./server", file, err)
	}
}
