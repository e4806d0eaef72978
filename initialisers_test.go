package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"strings"
	"testing"
)

// TestInitialisersAreUsed checks that the initialiser of an if or switch statement assigns a variable that the
// condition uses. Otherwise it should be a separate statement.
func TestInitialisersAreUsed(t *testing.T) {
	listed, err := exec.Command("git", "ls-files", "*.go").Output()
	if err != nil {
		t.Skip("the files are those that git knows, and this is no checkout:", err)
	}
	files := token.NewFileSet()
	seen := 0
	for name := range strings.Lines(string(listed)) {
		f, err := parser.ParseFile(files, strings.TrimSpace(name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(f) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			init, conditions := initialiser(n)
			if init == nil {
				return true
			}
			seen++
			if !usesAssigned(init, conditions) {
				t.Errorf("%s: the condition does not use what the initialiser assigns", files.Position(init.Pos()))
			}
			return true
		})
	}
	if seen < 1000 {
		t.Errorf("saw %d initialisers", seen)
	}
}

// initialiser returns the initialiser of a statement, and the expressions of its condition.
func initialiser(n ast.Node) (init ast.Stmt, conditions []ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		return n.Init, []ast.Node{n.Cond}
	case *ast.TypeSwitchStmt:
		return n.Init, []ast.Node{n.Assign}
	case *ast.SwitchStmt:
		if n.Tag != nil {
			return n.Init, []ast.Node{n.Tag}
		}
		for _, clause := range n.Body.List {
			for _, e := range clause.(*ast.CaseClause).List {
				conditions = append(conditions, e)
			}
		}
		return n.Init, conditions
	}
	return nil, nil
}

// usesAssigned reports whether a condition contains an expression that an initialiser assigns to.
func usesAssigned(init ast.Stmt, conditions []ast.Node) bool {
	assigned := map[string]bool{}
	switch init := init.(type) {
	case *ast.AssignStmt:
		for _, e := range init.Lhs {
			assigned[types.ExprString(e)] = true
		}
	case *ast.IncDecStmt:
		assigned[types.ExprString(init.X)] = true
	}
	delete(assigned, "_")
	used := false
	for _, c := range conditions {
		ast.Inspect(c, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			used = used || ok && assigned[types.ExprString(e)]
			return !used
		})
	}
	return used
}
