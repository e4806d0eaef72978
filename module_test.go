package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// released is the version of the working tree in proxy.
const released = "v0.0.1"

// proxy creates a folder that is a module proxy with one module, the working tree. It returns the environment in
// which the go command finds that module there and uses a separate module cache. Other modules come from sources, in
// this order.
func proxy(t *testing.T, sources ...string) []string {
	t.Helper()
	listed, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skip("the files of the module are those that git knows, and this is no checkout:", err)
	}
	var files []zip.File
	for path := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		if _, err := os.Lstat(path); err == nil { // a removed file is listed until the removal is committed
			files = append(files, file(path))
		}
	}
	root := t.TempDir()
	folder := filepath.Join(root, filepath.FromSlash(modulePath), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(folder, released+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if err := zip.Create(archive, module.Version{Path: modulePath, Version: released}, files); err != nil {
		t.Fatal(err)
	}
	requirements, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"list":             released + "\n",
		released + ".info": `{"Version":"` + released + `"}`,
		released + ".mod":  string(requirements),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return []string{
		"GOPROXY=" + strings.Join(append([]string{"file://" + filepath.ToSlash(root)}, sources...), ","),
		"GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOWORK=off", "GOTOOLCHAIN=local",
	}
}

// file is a file of the working tree, as package zip reads it.
type file string

func (f file) Path() string                 { return string(f) }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(string(f)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(string(f)) }

// execute runs a program in a folder and returns its output.
func execute(t *testing.T, folder string, environment []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// `go install` refuses a module with a replacement, so this test fails if go.mod gets one.
func TestInstallFromProxy(t *testing.T) {
	downloaded := filepath.Join(strings.TrimSpace(execute(t, ".", nil, "go", "env", "GOMODCACHE")), "cache", "download")
	folder := t.TempDir()
	environment := append(proxy(t, "file://"+filepath.ToSlash(downloaded)), "GOBIN="+folder, "CGO_ENABLED=0")
	execute(t, folder, environment, "go", "install", "-trimpath", modulePath+"@latest")
	said := execute(t, folder, nil, filepath.Join(folder, "mneme"), "version")
	if want := "mneme " + released + " " + runtime.Version(); !strings.HasPrefix(said, want) {
		t.Errorf("the installed program says %q, not %q", said, want)
	}
}

// A policy next to a checkout builds without a network: the SDK needs nothing but Go.
func TestPolicyBesideCheckout(t *testing.T) {
	checkout, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("sdk/policy/go/examples/keep-by-tag/main.go")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "main.go"), example, 0o644); err != nil {
		t.Fatal(err)
	}
	environment := []string{"GOPROXY=off", "GOMODCACHE=" + t.TempDir(), "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local"}
	execute(t, folder, environment, "go", "mod", "init", "example.com/keep-by-tag")
	execute(t, folder, environment, "go", "mod", "edit", "-require="+modulePath+"@v0.0.0",
		"-replace="+modulePath+"="+checkout)
	execute(t, folder, append(environment, "GOOS=wasip1", "GOARCH=wasm"),
		"go", "build", "-buildmode=c-shared", "-o", "keep-by-tag.wasm", ".")
	var requirements struct{ Require []struct{ Path string } }
	if err := json.Unmarshal([]byte(execute(t, folder, environment, "go", "mod", "edit", "-json")),
		&requirements); err != nil {
		t.Fatal(err)
	}
	if len(requirements.Require) != 1 {
		t.Errorf("a policy requires more than the SDK: %v", requirements.Require)
	}
}
