package foreign

import (
	"bytes"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/foreign/sqlite"
)

// Names of formats in reports.
const (
	claudeCode = "claude-code"
	chatGPT    = "chatgpt"
	codex      = "codex"
	claudeAI   = "claude-ai"
	openAIChat = "openai-chat"
	responses  = "openai-responses"
	langChain  = "langchain"
	mcpMemory  = "mcp-memory"
	agents     = "agents-sqlite"
	mem0       = "mem0"
	mem0SQLite = "mem0-sqlite"
	letta      = "letta"
	markdown   = "markdown"
)

// formatNames are the formats in the order in which their files are read. Batch inputs come with OpenAI's chat format.
var formatNames = []string{claudeCode, chatGPT, codex, claudeAI, openAIChat, responses, langChain, mcpMemory, agents, mem0,
	mem0SQLite, letta, markdown}

// readers read a file of each format.
var readers map[string]func(*source) error

func init() {
	readers = map[string]func(*source) error{claudeCode: readClaudeCode, chatGPT: readChatGPT, codex: readCodex,
		claudeAI: readClaudeAI, openAIChat: readOpenAIChat, responses: readResponses, mcpMemory: readMCPMemory,
		agents: readAgents, langChain: readLangChain, mem0: readMem0, mem0SQLite: readMem0SQLite, letta: readLetta,
		markdown: readMarkdown}
}

// shapes recognise the records of JSON formats. Each record has the shape of one format at most.
var shapes = []struct {
	format string
	is     func(o object) bool
}{
	{claudeCode, func(o object) bool {
		return o.has("sessionId", "uuid", "parentUuid") && oneOf(o.text("type"), "user", "assistant") &&
			o.object("message").has("role")
	}},
	{chatGPT, func(o object) bool {
		for _, node := range o.object("mapping") {
			return parseObject(node).has("id", "parent", "children")
		}
		return o.has("mapping", "current_node") && o.object("mapping") != nil
	}},
	{codex, isCodex},
	{claudeAI, func(o object) bool {
		return o.has("uuid", "chat_messages") && o["chat_messages"][0] == '[' ||
			o.has("conversations_memory") || o.has("project_memories") || o.has("docs", "prompt_template")
	}},
	{openAIChat, isOpenAIChat},
	{responses, isResponses},
	{langChain, isLangChain},
	{mcpMemory, func(o object) bool {
		return o.text("type") == "entity" && o.has("name", "entityType", "observations") ||
			o.text("type") == "relation" && o.has("from", "to", "relationType") ||
			o.has("entities", "relations") && o["entities"][0] == '['
	}},
	{mem0, func(o object) bool {
		list := o.list("results")
		return len(list) > 0 && parseObject(list[0]).has("id", "memory") || o.has("id", "memory") && o.text("memory") != "" &&
			(o.has("created_at") || o.has("user_id") || o.has("hash"))
	}},
	{letta, func(o object) bool {
		return len(o.list("agents")) > 0 && o.has("blocks", "tools") || o.has("core_memory", "messages")
	}},
}

func oneOf(s string, list ...string) bool { return slices.Contains(list, s) }

// sampled is how many records of a file are looked at to recognise its format.
const sampled = 200

var errSampled = errors.New("enough records were looked at")

// detect finds out what a file is by its content. If it is nothing that can be read, problem says so.
func (l *leaf) detect() {
	head := l.head(4096)
	text := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case bytes.HasPrefix(head, []byte("SQLite format 3\x00")):
		l.detectSQLite()
		return
	case l.Size == 0 || len(text) == 0 && l.Size <= int64(len(head)):
		l.problem = "empty"
		return
	case bytes.IndexByte(head, 0) >= 0:
		l.problem = "not recognised: binary data that is no archive and no SQLite database"
		return
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		l.detectJSON()
	}
	if l.format == "" && l.isMarkdown() {
		l.format = markdown
	}
	if l.format == "" && l.problem == "" {
		l.problem = "not recognised: its records are of none of the formats " + strings.Join(formatNames, ", ")
	}
}

// detectJSON looks at the first records. A text that is one value over several lines has oneValue.
func (l *leaf) detectJSON() {
	n, bad := 0, 0
	look := func(v *value) error {
		if n++; v.reason != "" {
			bad++
		}
		if l.format = formatOf(parseObject(v.raw)); l.format != "" {
			if l.format == claudeCode {
				l.first = parseObject(v.raw).time("timestamp")
			}
			return errSampled
		}
		if n >= sampled {
			return errSampled
		}
		return nil
	}
	_ = l.each(look)
	if l.format == "" && !l.isArray() && bad > 0 {
		l.oneValue = true
		n = 0
		_ = l.each(look)
	}
	if l.format == openAIChat && l.isArray() && l.hasItems() {
		l.format = responses
	}
}

// hasItems reports whether an array of messages has an item of the Responses API among its first elements.
func (l *leaf) hasItems() (found bool) {
	n := 0
	_ = l.eachElement(func(v *value) error {
		if o := parseObject(v.raw); o.has("type") && isItem(o) {
			found = true
		}
		if n++; found || n >= sampled {
			return errSampled
		}
		return nil
	})
	return found
}

// formatOf returns the format of a record; "" if it is of none.
func formatOf(o object) string {
	if o == nil {
		return ""
	}
	for _, s := range shapes {
		if s.is(o) {
			return s.format
		}
	}
	return ""
}

// detectSQLite recognises a database by the columns of its tables.
func (l *leaf) detectSQLite() {
	db, err := l.sqlite()
	if err != nil {
		l.problem = "unreadable: " + err.Error()
		return
	}
	for _, t := range db.Tables() {
		switch {
		case t.Has("session_id", "message_data", "created_at"):
			l.format = agents
		case t.Has("session_id", "message") && !t.Has("message_data"):
			l.format = langChain
		case t.Has("memory_id", "old_memory", "new_memory", "event"):
			l.format = mem0SQLite
		}
		if l.format != "" {
			return
		}
	}
	l.problem = "not recognised: a SQLite database without the tables of a known program"
}

// sqlite opens a database with its log.
func (l *leaf) sqlite() (*sqlite.DB, error) {
	if l.wal != nil {
		return sqlite.Open(l, l.Size, l.wal, l.wal.Size)
	}
	return sqlite.Open(l, l.Size, nil, 0)
}

// isMarkdown reports whether a text is taken as memories: by what is in it or, for plain notes, if it was named or is in
// a folder or under a name that is known.
func (l *leaf) isMarkdown() bool {
	ext := strings.ToLower(path.Ext(l.Name))
	if ext != ".md" && ext != ".txt" && ext != ".markdown" {
		return false
	}
	return l.Named || isBasicMemory(string(l.head(64<<10))) || isMemoryPath(l.Name) || ext == ".md"
}
