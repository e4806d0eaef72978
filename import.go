package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/foreign"
)

// nothingRecognised is the exit code if no file was one to import.
const nothingRecognised exitCode = 2

// importConfig is the configuration of `mneme import`.
type importConfig struct {
	reach
	project, namespace string
	dryRun, json       string // truth
	files              []string
}

func readImportConfig(args []string, env lookup, stderr io.Writer) (importConfig, error) {
	c := importConfig{project: ident.DefaultProject, dryRun: "false", json: "false"}
	flags, files := splitFiles(args)
	c.files = files
	var err error
	c.reach, err = readReach("import", flags, env, stderr,
		option{"project", "MNEME_PROJECT", "", &c.project, "`PROJECT` to import into"},
		option{"namespace", "MNEME_MEMORY_NAMESPACE", "", &c.namespace,
			"`NAMESPACE` of the memories, such as users/ada; by default import/ and the name of the program"},
		option{"dry-run", "", "", &c.dryRun, "report what would be imported, and store nothing"},
		option{"json", "", "", &c.json, "print the report as JSON"})
	if err == nil && len(files) == 0 {
		err = errors.New("name a file or a folder to import: mneme import FILE…|FOLDER")
	}
	return c, err
}

// splitFiles tells files from flags, which may come in any order. After -- there are only files.
func splitFiles(args []string) (flags, files []string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name := strings.TrimLeft(arg, "-")
		switch {
		case arg == "--":
			return flags, append(files, args[i+1:]...)
		case len(arg) < 2 || arg[0] != '-':
			files = append(files, arg)
		case strings.Contains(arg, "=") || slices.Contains([]string{"dry-run", "json", "h", "help"}, name) || i+1 == len(args):
			flags = append(flags, arg)
		default:
			flags = append(flags, arg, args[i+1])
			i++
		}
	}
	return flags, files
}

// importFiles sends files of other programs to a running server, and prints what it made of them.
func importFiles(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) error {
	c, err := readImportConfig(args, env, stderr)
	if err != nil {
		return err
	}
	namespace, err := ident.ReadNamespace("--namespace", c.namespace)
	if err != nil {
		return err
	}
	found, others, err := findFiles(c.files)
	if err != nil {
		return err
	}
	report := foreign.Report{Files: []foreign.FileReport{}, Total: foreign.Counts{LeftOut: map[string]int{}}}
	if len(found) > 0 {
		if report, err = c.send(ctx, found, namespace, stderr); err != nil {
			return err
		}
	}
	report.Files = append(report.Files, others...)
	if c.json == "true" {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		err = out.Encode(report)
	} else {
		err = printImport(stdout, &report, c.dryRun == "true")
	}
	if err == nil && !slices.ContainsFunc(report.Files, func(f foreign.FileReport) bool { return f.Format != "" }) {
		return nothingRecognised
	}
	return err
}

// foundFile is a file on the disk.
type foundFile struct {
	foreign.File
	path string
}

// findFiles returns the files to send, and a report of those that are none of another program's. Links in folders are not
// followed.
func findFiles(args []string) (found []foundFile, others []foreign.FileReport, err error) {
	add := func(path, name string, named bool) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		file := foreign.File{ReaderAt: f, Name: filepath.ToSlash(name), Size: info.Size(), ModTime: info.ModTime(), Named: named}
		if problem := foreign.Recognise(file); problem != "" {
			others = append(others, foreign.FileReport{Name: file.Name, Problem: problem, Counts: foreign.Counts{LeftOut: map[string]int{}}})
			return nil
		}
		file.ReaderAt = nil // opened again when it is sent
		found = append(found, foundFile{file, path})
		return nil
	}
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, nil, err
		}
		if !info.IsDir() {
			if err := add(arg, filepath.Base(arg), true); err != nil {
				return nil, nil, err
			}
			continue
		}
		whole, err := filepath.Abs(arg)
		if err != nil {
			return nil, nil, err
		}
		err = filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
				return filepath.SkipDir
			case !d.Type().IsRegular():
				return nil
			}
			inner, err := filepath.Rel(arg, path)
			if err != nil {
				return err
			}
			return add(path, nameBelow(whole, inner), false)
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return found, others, nil
}

// nameBelow returns the name of a file in a folder. A folder that says what its files are, such as memories, is part of
// the name.
func nameBelow(folder, inner string) string {
	if base := filepath.Base(folder); base == "memories" || base == "memory" || base == "projects" {
		return filepath.Join(base, inner)
	}
	return inner
}

// send sends the files in one request and returns the server's report.
func (c importConfig) send(ctx context.Context, files []foundFile, namespace []string, stderr io.Writer) (
	report foreign.Report, err error) {
	query := url.Values{"dry_run": {c.dryRun}}
	if namespace != nil {
		query["namespace"] = namespace
	}
	body, writer := io.Pipe()
	go func() { writer.CloseWithError(writeTar(writer, files, newProgress(stderr, files))) }()
	defer body.Close()
	to := c.url + "/api/v1/projects/" + url.PathEscape(c.project) + "/import/foreign?" + query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, body)
	if err != nil {
		return report, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return report, fmt.Errorf("sending the files: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return report, refusedByServer(res)
	}
	if err := json.NewDecoder(res.Body).Decode(&report); err != nil {
		return report, fmt.Errorf("reading the server's answer: %w", err)
	}
	return report, nil
}

// writeTar writes the files as they are now. One that was cut short meanwhile is an error; what was added is left for the
// next run.
func writeTar(to io.Writer, files []foundFile, sent *progress) error {
	defer sent.end()
	t := tar.NewWriter(to)
	for i := range files {
		f := &files[i]
		if err := t.WriteHeader(foreign.TarHeader(&f.File)); err != nil {
			return err
		}
		in, err := os.Open(f.path)
		if err != nil {
			return err
		}
		_, err = io.CopyN(io.MultiWriter(t, sent), in, f.Size)
		if cerr := in.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", f.path, err)
		}
	}
	return t.Close()
}

// progress is a bar on a terminal that shows how much was sent.
type progress struct {
	to        io.Writer // nil if it is no terminal
	all, done int64
	shown     int
}

func newProgress(stderr io.Writer, files []foundFile) *progress {
	p := &progress{shown: -1}
	for i := range files {
		p.all += files[i].Size
	}
	if f, ok := stderr.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.to = stderr
		}
	}
	return p
}

func (p *progress) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	percent := int(100 * p.done / max(1, p.all))
	if p.to != nil && percent != p.shown {
		p.shown = percent
		fmt.Fprintf(p.to, "\r[%-40s] %3d %% of %d MB sent", strings.Repeat("#", percent*2/5), percent, p.all>>20)
	}
	return len(b), nil
}

func (p *progress) end() {
	if p.to != nil {
		fmt.Fprint(p.to, "\n")
	}
}

// printImport prints a report for people.
func printImport(w io.Writer, r *foreign.Report, dryRun bool) error {
	var out strings.Builder
	for i := range r.Files {
		f := &r.Files[i]
		if f.Format == "asset" || f.Format == "" && f.Problem == "" {
			continue
		}
		fmt.Fprintf(&out, "%s: ", f.Name)
		if f.Format != "" {
			fmt.Fprintf(&out, "%s, %s", f.Format, counted(&f.Counts))
		}
		if f.Problem != "" {
			fmt.Fprintf(&out, " (%s)", f.Problem)
		}
		out.WriteString("\n")
	}
	verb := "Imported"
	if dryRun {
		verb = "Would import"
	}
	fmt.Fprintf(&out, "\n%s %s.\n", verb, counted(&r.Total))
	if len(r.Total.LeftOut) > 0 {
		out.WriteString("Left out:\n")
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Total.LeftOut)) {
		fmt.Fprintf(&out, "  %7d %s\n", r.Total.LeftOut[reason], reason)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Total.Unknown)) {
		fmt.Fprintf(&out, "  of unknown_record: %d %s\n", r.Total.Unknown[kind], kind)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func counted(c *foreign.Counts) string {
	return fmt.Sprintf("%d conversations, %d turns, %d messages, %d memories", c.Conversations, c.Turns, c.Messages, c.Memories)
}
