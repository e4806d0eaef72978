package tools

import (
	"fmt"
	"math/bits"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

const (
	filesRoot    = "/memories"
	fileSuffix   = ".md"
	categoryCore = "core"
)

// place is what a path of the memory tool refers to: a file, the folder of a category, or all folders.
type place struct{ category, key string }

// noKey is the key in the place of a file that cannot exist. No memory has it.
const noKey = "."

// In a file's name, a slash of its key is escaped, and so is the sign that begins an escape.
var (
	escapeFile   = strings.NewReplacer("%", "%25", "/", "%2F")
	unescapeFile = strings.NewReplacer("%25", "%", "%2F", "/")
)

// pathOf returns the path of a memory's file.
func pathOf(m *memory.Memory) string {
	return filesRoot + "/" + m.Category + "/" + escapeFile.Replace(m.Key) + fileSuffix
}

// hidden reports whether a memory is left out when files are listed: keys that begin with a dot are hidden files, and no
// path leads to one that looks as if it climbed.
func hidden(m *memory.Memory) bool {
	at, err := placeOf(pathOf(m))
	return strings.HasPrefix(m.Key, ".") || err != nil || at.key != m.Key
}

// placeOf parses a path. It rejects a path that climbs, in any encoding, or that does not begin with /memories. A path
// that no memory can have refers to a file that does not exist, with a key that no memory has.
func placeOf(path string) (place, error) {
	for plain := path; ; {
		climbs := func(part string) bool { return part == "." || part == ".." }
		if strings.ContainsAny(plain, "\\\x00") || slices.ContainsFunc(strings.Split(plain, "/"), climbs) {
			return place{}, refused("invalid_value", "Error: Path %s would escape /memories directory", path)
		}
		decoded, err := url.PathUnescape(plain)
		if err != nil || decoded == plain {
			break
		}
		plain = decoded
	}
	rest, ok := strings.CutPrefix(path, filesRoot)
	if !ok || rest != "" && rest[0] != '/' {
		return place{}, refused("invalid_value", "Error: Path must start with /memories, got: %s", path)
	}
	rest = strings.Trim(rest, "/")
	category, file, isFile := strings.Cut(rest, "/")
	if !isFile {
		if at := (place{category: category}); category == "" || at.known() {
			return at, nil
		}
		return place{category: category, key: noKey}, nil
	}
	name, ok := strings.CutSuffix(file, fileSuffix)
	at := place{category, unescapeFile.Replace(name)}
	if !ok || strings.Contains(name, "/") || !at.known() || ident.CheckID("path", at.key) != nil {
		at.key = noKey
	}
	return at, nil
}

func (p place) known() bool { return slices.Contains(memory.Categories(), p.category) }

// fileOf parses the path of a file to be written.
func fileOf(path string) (place, error) {
	at, err := placeOf(path)
	if err == nil && (at.key == "" || at.key == noKey) {
		err = refused("invalid_value", "Error: The path %s cannot be a memory file. Files are /memories/<category>/<key>.md: "+
			"the category is %s, and the key %s, with / written as %%2F", path,
			strings.Join(memory.Categories(), ", "), ident.IDRule)
	}
	return at, err
}

// maxFiles limits the files that one call lists or deletes.
const maxFiles = 1000

// filesIn returns the memories that are files of a folder, sorted by path.
func (f *filing) filesIn(at place) (out []memory.Memory, more bool, err error) {
	filter, page := memory.Filter{Category: at.category, Namespace: f.within}, records.Page{Limit: maxFiles}
	for {
		list, err := f.svc.memories.List(f.ctx, f.caller, f.project, filter, memory.ByKey, page)
		if err != nil {
			return nil, false, err
		}
		for _, m := range list.Data {
			if len(m.Namespace) == len(f.within) && m.Category != "" {
				if len(out) == maxFiles {
					more = true
					break
				}
				out = append(out, m)
			}
		}
		if more || !list.HasMore {
			break
		}
		page.Cursor = *list.NextCursor
	}
	slices.SortFunc(out, func(a, b memory.Memory) int { return strings.Compare(pathOf(&a), pathOf(&b)) })
	return out, more, nil
}

// viewFolder lists the contents of a folder with their sizes. It leaves out hidden files.
func (f *filing) viewFolder(at place, path string, missing error) (string, error) {
	files, more, err := f.filesIn(at)
	if err != nil {
		return "", err
	}
	if at.category != "" && len(files) == 0 {
		return "", missing
	}
	shown, total, in := []string{}, 0, map[string]int{}
	for i := range files {
		total += len(files[i].Content)
		in[files[i].Category] += len(files[i].Content)
	}
	folder := ""
	for i := range files {
		m := &files[i]
		if hidden(m) {
			continue
		}
		if at.category == "" && m.Category != folder {
			folder = m.Category
			shown = append(shown, fmt.Sprintf("%s\t%s/%s", size(in[folder]), filesRoot, folder))
		}
		shown = append(shown, fmt.Sprintf("%s\t%s", size(len(m.Content)), pathOf(m)))
	}
	lines := append([]string{
		fmt.Sprintf("Here're the files and directories up to 2 levels deep in %s, excluding hidden items and node_modules:", path),
		fmt.Sprintf("%s\t%s", size(total), path)}, shown...)
	if more {
		lines = append(lines, fmt.Sprintf("(only %d files are listed; there are more)", maxFiles))
	}
	return strings.Join(lines, "\n"), nil
}

// size formats a number of bytes for people, such as 512B, 5.5K and 2M.
func size(n int) string {
	if n == 0 {
		return "0B"
	}
	unit := min((bits.Len(uint(n))-1)/10, 3)
	scaled := float64(n) / float64(int(1)<<(10*unit))
	if scaled == float64(int(scaled)) {
		return fmt.Sprintf("%d%c", int(scaled), "BKMG"[unit])
	}
	return fmt.Sprintf("%.1f%c", scaled, "BKMG"[unit])
}

// delete forgets the memory of a file, or all memories of a folder.
func (f *filing) delete(path string) (string, error) {
	at, err := placeOf(path)
	if err != nil {
		return "", err
	}
	missing := refused("not_found", "Error: The path %s does not exist", path)
	done := "Successfully deleted " + path
	switch {
	case at == place{}:
		return "", refused("invalid_value", "Error: Cannot delete the /memories directory itself")
	case at.key != "":
		gone, err := f.svc.memories.ForgetPassing(f.ctx, f.caller, f.once, f.project, f.id(at),
			memory.Filter{Category: at.category})
		if err == nil && !gone.Forgotten {
			err = missing
		}
		return done, err
	}
	files, more, err := f.filesIn(at)
	if err != nil {
		return "", err
	}
	if len(files) == 0 {
		return "", missing
	}
	for i := range files {
		if _, err := f.svc.memories.ForgetPassing(f.ctx, f.caller, ident.Once{}, f.project, files[i].ID(),
			memory.Filter{Category: files[i].Category}); err != nil { // one that was renamed in the meantime is kept
			return "", err
		}
	}
	if more {
		done = fmt.Sprintf("Deleted %d files of %s; there are more, so delete it again", len(files), path)
	}
	return done, nil
}
