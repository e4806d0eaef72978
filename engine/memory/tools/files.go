package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
)

// nameFiles is Anthropic's memory tool, memory_20250818: files below /memories that a model views, writes and edits. A
// memory without a namespace, or in the one that limits the call, is the file /memories/<category>/<key>.md. Commands
// and responses follow "Memory tool" in Anthropic's documentation (agents-and-tools/tool-use/memory-tool) word for
// word. What it leaves open (sizes, the snippet after str_replace, line endings) is as in BetaLocalFilesystemMemoryTool
// of Anthropic's SDK for Python.
const nameFiles = "memory"

// FileResult is the structured result of the memory tool.
type FileResult struct {
	Command string `json:"command"`
	Output  string `json:"output"`
}

// fileError is an error of the memory tool, in the words of its reference.
type fileError struct{ code, text string }

func (e *fileError) Error() string { return e.text }

func refused(code, format string, args ...any) error {
	return &fileError{code, fmt.Sprintf(format, args...)}
}

// filing is one call of the memory tool.
type filing struct {
	svc     *Service
	ctx     context.Context
	caller  ident.Caller
	once    ident.Once
	project string
	session string
	within  []string // the namespace whose memories are the files
}

// id returns the full name of the memory of a file.
func (f *filing) id(at place) string {
	return memory.ID(f.within, at.key)
}

// files executes a command of the memory tool.
func (svc *Service) files(ctx context.Context, c ident.Caller, once ident.Once, projectID, session string,
	args *arguments) (Result, error) {
	f := &filing{svc, ctx, c, once, projectID, session, args.within}
	command := args.text("command")
	run := f.command(command, args)
	if run == nil {
		args.fault("command", "invalid_value", "must be view, create, str_replace, insert, delete or rename")
		args.faults = args.faults[len(args.faults)-1:]
		args.values = nil // nothing can be said about the others
	}
	if err := args.done(); err != nil {
		return Result{}, err
	}
	text, err := run()
	if wrong, ok := errors.AsType[*fileError](err); ok {
		return failure(&fault.Error{Code: wrong.code, Detail: wrong.text}), nil
	}
	return Result{Content: text, Structured: FileResult{command, text}}, err
}

// command reads a command's arguments, and returns a function that executes it, or nil if there is no such command.
func (f *filing) command(command string, args *arguments) func() (string, error) {
	switch command {
	case "view":
		path, lines := args.text("path"), args.viewRange()
		return func() (string, error) { return f.view(path, lines) }
	case "create":
		path, text := args.text("path"), args.text("file_text")
		return func() (string, error) { return f.create(path, text) }
	case "str_replace":
		path, old, new := args.text("path"), args.text("old_str"), args.text("new_str")
		return func() (string, error) { return f.replace(path, old, new) }
	case "insert":
		path, line, text := args.text("path"), args.number("insert_line"), args.text("insert_text")
		if line == nil && len(args.faults) == 0 {
			args.fault("insert_line", "required", "say behind which line, 0 for the beginning")
			line = new(float64)
		}
		return func() (string, error) { return f.insert(path, *line, text) }
	case "delete":
		path := args.text("path")
		return func() (string, error) { return f.delete(path) }
	case "rename":
		from, to := args.text("old_path"), args.text("new_path")
		return func() (string, error) { return f.rename(from, to) }
	}
	return nil
}

// viewRange reads the first and the last line to view; nil means all. The last may be -1, which is the end.
func (a *arguments) viewRange() []int {
	v := a.take("view_range")
	if v == nil {
		return nil
	}
	var lines []int
	if json.Unmarshal(v, &lines) != nil || len(lines) != 2 {
		a.fault("view_range", "wrong_type", "must be a list of two line numbers")
		return nil
	}
	return lines
}

// view shows a file with line numbers, or the contents of a folder.
func (f *filing) view(path string, lines []int) (string, error) {
	at, err := placeOf(path)
	if err != nil {
		return "", err
	}
	missing := refused("not_found", "The path %s does not exist. Please provide a valid path.", path)
	if at.key == "" {
		return f.viewFolder(at, path, missing)
	}
	m, err := f.read(at, missing)
	if err != nil {
		return "", err
	}
	all := strings.Split(m.Content, "\n")
	if len(all) > maxLines {
		return "", refused("too_many", "File %s exceeds maximum line limit of 999,999 lines.", path)
	}
	first, last := 1, len(all)
	if lines != nil {
		first = max(1, lines[0])
		if lines[1] != -1 {
			last = min(last, lines[1])
		}
	}
	return fmt.Sprintf("Here's the content of %s with line numbers:\n%s", path, numbered(all, first, last)), nil
}

// maxLines limits the lines of a file that can be viewed.
const maxLines = 999_999

// numbered returns lines with their numbers, counted from 1.
func numbered(lines []string, first, last int) string {
	var out []string
	for i := first; i <= last; i++ {
		out = append(out, fmt.Sprintf("%6d\t%s", i, lines[i-1]))
	}
	return strings.Join(out, "\n")
}

// read returns the memory of a file.
func (f *filing) read(at place, missing error) (memory.Memory, error) {
	m, err := f.svc.memories.Get(f.ctx, f.caller, f.project, f.id(at))
	if fault.IsNotFound(err) || err == nil && m.Category != at.category {
		err = missing
	}
	return m, err
}

// create stores a new file.
func (f *filing) create(path, text string) (string, error) {
	at, err := fileOf(path)
	if err != nil {
		return "", err
	}
	err = f.svc.memories.Edit(f.ctx, f.caller, f.once, f.project, f.id(at), f.id(at),
		func(old *memory.Memory) (memory.Spec, error) {
			if old != nil { // perhaps in another folder: a key is unique across categories
				return memory.Spec{}, refused("conflict", "Error: File %s already exists", pathOf(old))
			}
			spec := memory.Spec{Content: text, Category: at.category, Origin: memory.OriginFile}
			if at.category != categoryCore {
				spec.SessionID = f.session
			}
			return spec, nil
		})
	return "File created successfully at: " + path, err
}

// edit changes the text of an existing file.
func (f *filing) edit(path string, missing error, change func(text string) (string, error)) error {
	at, err := placeOf(path)
	if err != nil {
		return err
	}
	if at.key == "" {
		return missing
	}
	return f.svc.memories.Edit(f.ctx, f.caller, f.once, f.project, f.id(at), f.id(at),
		func(old *memory.Memory) (spec memory.Spec, err error) {
			if old == nil || old.Category != at.category {
				return spec, missing
			}
			spec = old.Spec()
			spec.Origin = memory.OriginFile
			spec.Content, err = change(old.Content)
			return spec, err
		})
}

// maxOccurrences limits the lines that the response to str_replace names if the text occurs more than once.
const maxOccurrences = 100

// replace replaces a text that occurs once in a file.
func (f *filing) replace(path, old, new string) (string, error) {
	answer := "The memory file has been edited."
	missing := refused("not_found", "Error: The path %s does not exist. Please provide a valid path.", path)
	err := f.edit(path, missing, func(text string) (string, error) {
		var lines []string
		for at, line := 0, 1; old != ""; {
			i := strings.Index(text[at:], old)
			if i < 0 {
				break
			}
			if len(lines) == maxOccurrences {
				lines = append(lines, "and more")
				break
			}
			line += strings.Count(text[at:at+i], "\n")
			lines = append(lines, fmt.Sprint(line))
			line += strings.Count(text[at+i:at+i+1], "\n")
			at += i + 1
		}
		switch len(lines) {
		case 0:
			return "", refused("not_found",
				"No replacement was performed, old_str `%s` did not appear verbatim in %s.", old, path)
		case 1:
		default:
			return "", refused("conflict", "No replacement was performed. Multiple occurrences of old_str `%s` in lines: %s. "+
				"Please ensure it is unique", old, strings.Join(lines, ", "))
		}
		at := strings.Index(text, old)
		text = text[:at] + new + text[at+len(old):]
		all, changed := strings.Split(text, "\n"), 1+strings.Count(text[:at], "\n")
		answer = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" +
			numbered(all, max(1, changed-2), min(len(all), changed+2))
		return text, nil
	})
	return answer, err
}

// insert inserts a text after a line of a file. The file then ends with a newline.
func (f *filing) insert(path string, line float64, text string) (string, error) {
	missing := refused("not_found", "Error: The path %s does not exist", path)
	err := f.edit(path, missing, func(old string) (string, error) {
		var lines []string
		if old = strings.TrimSuffix(old, "\n"); old != "" {
			lines = strings.Split(old, "\n")
		}
		n := int(line)
		if float64(n) != line || n < 0 || n > len(lines) {
			return "", refused("out_of_range", "Error: Invalid `insert_line` parameter: %v. It should be within the range of "+
				"lines of the file: [0, %d]", line, len(lines))
		}
		all := append(append(append([]string{}, lines[:n]...), strings.TrimRight(text, "\n")), lines[n:]...)
		return strings.Join(all, "\n") + "\n", nil
	})
	return fmt.Sprintf("The file %s has been edited.", path), err
}

// rename gives a file another key, another category, or both.
func (f *filing) rename(from, to string) (string, error) {
	old, err := placeOf(from)
	if err != nil {
		return "", err
	}
	missing := refused("not_found", "Error: The path %s does not exist", from)
	if old.key == "" {
		return "", refused("conflict", "Error: %s is a folder, and folders are the categories of memories. Rename its files",
			from)
	}
	at, err := fileOf(to)
	if err != nil {
		return "", err
	}
	taken := refused("conflict", "Error: The destination %s already exists", to)
	err = f.svc.memories.Edit(f.ctx, f.caller, f.once, f.project, f.id(old), f.id(at),
		func(m *memory.Memory) (memory.Spec, error) {
			switch {
			case m == nil || m.Category != old.category:
				return memory.Spec{}, missing
			case old == at:
				return memory.Spec{}, taken
			}
			spec := m.Spec()
			spec.Origin, spec.Category = memory.OriginFile, at.category
			if at.category != old.category {
				spec.ExpiresAt = nil
			}
			return spec, nil
		})
	if errors.Is(err, memory.ErrTaken) {
		err = taken
	}
	return fmt.Sprintf("Successfully renamed %s to %s", from, to), err
}
