package foreign

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxNote is the size of the largest note that becomes one memory, in bytes.
const maxNote = 4 << 10

// memoryFiles are the names of files with memories.
var memoryFiles = []string{"CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "MEMORY.md"}

// isMemoryPath reports whether a file is in a folder of memories, or has the name of a file with memories.
func isMemoryPath(name string) bool {
	parts := strings.Split(path.Dir(name), "/")
	return slices.Contains(memoryFiles, path.Base(name)) || slices.Contains(parts, "memories") ||
		slices.Contains(parts, "memory") && strings.Contains("/"+name, "/projects/") || slices.Contains(parts, "memory") && parts[0] == "memory"
}

// note is a text with its frontmatter.
type note struct {
	front map[string]any
	body  string
}

func parseNote(text string) note {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return note{body: text}
	}
	front, body, ok := strings.Cut(rest, "\n---\n")
	if !ok {
		if front, ok = strings.CutSuffix(rest, "\n---"); !ok {
			return note{body: text}
		}
	}
	n := note{body: body}
	if len(front) > 64<<10 || yaml.Unmarshal([]byte(front), &n.front) != nil {
		return note{body: text}
	}
	return n
}

var (
	observationLine = regexp.MustCompile(`^\s*[-*]\s+\[([^\[\]()]+)\]\s+(.*\S)\s*$`)
	relationLine    = regexp.MustCompile(`^\s*[-*]\s+(.*?)\s*\[\[([^\[\]]+)\]\]\s*(?:\((.*)\))?\s*$`)
	contextEnd      = regexp.MustCompile(`^(.*\S)\s*\(([^()]*)\)$`)
	tagWord         = regexp.MustCompile(`(?:^|\s)#([^\s#]+)`)
	comment         = regexp.MustCompile(`(?s)<!--.*?-->\n?`)
	importLine      = regexp.MustCompile(`^@\S+$`)
	heading         = regexp.MustCompile(`^(#{1,2})\s+(.*\S)\s*$`)
)

// isBasicMemory reports whether a text is a note of basic-memory.
func isBasicMemory(text string) bool {
	n := parseNote(text)
	if _, ok := n.front["permalink"]; ok {
		return true
	}
	for line := range strings.SplitSeq(n.body, "\n") {
		m := observationLine.FindStringSubmatch(line)
		if m != nil && isCategory(m[1], m[2]) && (tagWord.MatchString(m[2]) || contextEnd.MatchString(m[2])) {
			return true
		}
		if r := relationLine.FindStringSubmatch(line); r != nil && r[1] != "" && !strings.ContainsAny(r[1], ".:") && len(r[1]) < 40 {
			return true
		}
	}
	return false
}

// isCategory tells the category of an observation from the box of a task.
func isCategory(category, text string) bool {
	c := strings.TrimSpace(category)
	return c != "" && c != "x" && c != "X" && c != "-" && !strings.HasPrefix(text, "(")
}

// readMarkdown reads a note.
func readMarkdown(src *source) error {
	if src.Size > 16<<20 {
		return unreadablef("too large: a note may have at most 16 MiB")
	}
	raw, err := src.all()
	if err != nil {
		return err
	}
	text := strings.ToValidUTF8(string(raw), "\uFFFD")
	if isBasicMemory(text) {
		src.report.Format = "basic-memory"
		return src.basicMemory(parseNote(text))
	}
	if !src.Named && !isMemoryPath(src.Name) {
		src.report.left(NotAMemory, 1)
		return nil
	}
	return src.plainNote(parseNote(text))
}

// basicMemory makes a memory of a note of basic-memory.
func (src *source) basicMemory(n note) error {
	type observation struct {
		Category string   `json:"category"`
		Content  string   `json:"content"`
		Tags     []string `json:"tags"`
		Context  *string  `json:"context"`
	}
	type link struct {
		Type    string  `json:"type"`
		Target  string  `json:"target"`
		Context *string `json:"context"`
	}
	observations, links, tags := []observation{}, []link{}, n.tags()
	for line := range strings.SplitSeq(n.body, "\n") {
		if r := relationLine.FindStringSubmatch(line); r != nil {
			kind := strings.Trim(strings.TrimSpace(r[1]), `"'`)
			links = append(links, link{cmp.Or(kind, "links_to"), r[2], some(r[3])})
			continue
		}
		m := observationLine.FindStringSubmatch(line)
		if m == nil || !isCategory(m[1], m[2]) {
			continue
		}
		o := observation{Category: m[1], Content: m[2], Tags: []string{}}
		if c := contextEnd.FindStringSubmatch(m[2]); c != nil {
			o.Content, o.Context = c[1], some(c[2])
		}
		for _, t := range tagWord.FindAllStringSubmatch(o.Content, -1) {
			o.Tags = append(o.Tags, t[1])
		}
		tags = append(tags, o.Tags...)
		observations = append(observations, o)
	}
	slices.Sort(tags)
	m := Memory{Namespace: []string{"import", "basic-memory"}, Key: n.text("permalink"), Content: strings.TrimSpace(n.body),
		Value: encode(map[string]any{"observations": observations, "relations": links}), Tags: slices.Compact(tags),
		Created: n.time("created"), Updated: n.time("modified"), Metadata: map[string]string{"title": n.text("title"), "type": n.text("type")}}
	if m.Key == "" {
		m.Key = strings.TrimSuffix(src.Name, path.Ext(src.Name))
	}
	if m.Content == "" {
		m.Content = cmp.Or(n.text("title"), m.Key)
	}
	src.date(&m)
	return src.memory("basic-memory", m)
}

func some(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (n note) text(name string) string {
	switch v := n.front[name].(type) {
	case nil:
		return ""
	case time.Time:
		return v.Format(time.RFC3339)
	default:
		return fmt.Sprint(v)
	}
}

func (n note) time(name string) time.Time { return timeOf(n.text(name)) }

// tags returns the tags of the frontmatter, a list or a text with commas.
func (n note) tags() (tags []string) {
	switch v := n.front["tags"].(type) {
	case []any:
		for _, t := range v {
			tags = append(tags, fmt.Sprint(t))
		}
	case string:
		for t := range strings.SplitSeq(v, ",") {
			if t = strings.TrimSpace(t); t != "" {
				tags = append(tags, t)
			}
		}
	}
	return tags
}

// date gives a memory without times those of its file.
func (src *source) date(m *Memory) {
	if m.Created.IsZero() {
		m.Created = src.ModTime
	}
	if m.Updated.IsZero() {
		m.Updated = src.ModTime
	}
}

// plainNote makes a memory of a note or, if it is long, of each of its sections.
func (src *source) plainNote(n note) error {
	body := comment.ReplaceAllString(n.body, "")
	lines := strings.Split(body, "\n")
	for _, line := range lines {
		if importLine.MatchString(strings.TrimSpace(line)) {
			src.report.left(ImportNotFollowed, 1)
		}
	}
	type section struct{ key, text string }
	sections := []section{{src.Name, ""}}
	if len(body) > maxNote {
		slugs := map[string]int{}
		for _, line := range lines {
			if m := heading.FindStringSubmatch(line); m != nil {
				slug := slugOf(m[2])
				if slugs[slug]++; slugs[slug] > 1 {
					slug = fmt.Sprintf("%s-%d", slug, slugs[slug])
				}
				sections = append(sections, section{key: src.Name + "#" + slug})
			}
			sections[len(sections)-1].text += line + "\n"
		}
	} else {
		sections[0].text = body
	}
	kept := 0
	for _, s := range sections {
		text := strings.TrimSpace(s.text)
		if text == "" {
			continue
		}
		kept++
		m := Memory{Key: s.key, Content: text, Tags: n.tags()}
		src.date(&m)
		if err := src.memory(markdown, m); err != nil {
			return err
		}
	}
	src.report.left(Empty, 1-min(1, kept))
	return nil
}

func slugOf(title string) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 0x7f:
			return r
		case r == ' ' || r == '-' || r == '_':
			return '-'
		}
		return -1
	}, strings.ToLower(title))
	return cmp.Or(strings.Trim(slug, "-"), "section")
}
