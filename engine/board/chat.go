package board

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// Kinds of notifications.
const (
	noticeChat    = "chat"
	noticeMention = "mention"
	noticeControl = "control"
)

const (
	commandPause  = "/pause"
	commandResume = "/resume"
	// leadName mentions whoever is the board's lead.
	leadName = "lead"
	// maxSnippet is the longest snippet, in characters; a longer text loses what does not fit with the ellipsis.
	maxSnippet = 800
	ellipsis   = "..."
)

// noticeRecord is a stored notification.
type noticeRecord struct {
	Kind    string `json:"kind"`
	Command string `json:"command,omitempty"`
	Entry   uint64 `json:"entry"`
	From    string `json:"from"`
	Snippet string `json:"snippet"`
	Created int64  `json:"created"` // ms
}

// commandOf gives the control command that a chat is, or "".
func commandOf(content string) string {
	switch command := strings.ToLower(strings.TrimSpace(content)); command {
	case commandPause, commandResume:
		return command
	}
	return ""
}

// mentionsIn gives the names after an @, in lower case, each once.
func mentionsIn(content string) (out []string) {
	for i := strings.IndexByte(content, '@'); i >= 0; {
		content = content[i+1:]
		n := 0
		for n < len(content) && n < 64 && mentionable(content[n], n == 0) {
			n++
		}
		if name := strings.ToLower(content[:n]); n > 0 && !slices.Contains(out, name) {
			out = append(out, name)
		}
		i = strings.IndexByte(content, '@')
	}
	return out
}

// mentionable tells whether a mention may hold a byte, or begin with it.
func mentionable(c byte, first bool) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return !first && (c == '_' || c == '-')
}

// mentioned tells whether one of the names means the agent: its id or the first word of its display name.
func (a *agentRecord) mentioned(names []string) bool {
	if slices.Contains(names, strings.ToLower(a.ID)) || a.Lead && slices.Contains(names, leadName) {
		return true
	}
	words := strings.Fields(strings.ToLower(a.DisplayName))
	return len(words) > 0 && slices.Contains(names, words[0])
}

// snippet is what a notification shows of an entry.
func snippet(content string) string {
	content = strings.TrimSpace(content)
	if utf8.RuneCountInString(content) <= maxSnippet {
		return content
	}
	keep := maxSnippet - len(ellipsis)
	for i := range content {
		if keep == 0 {
			return content[:i] + ellipsis
		}
		keep--
	}
	return content
}

// notify collects the notifications that a chat raises: a control command goes to every agent and sets whether it is
// paused, else mentioned agents hear of it, and the lead hears all. The sender hears nothing of its own.
func (p *parsedPost) notify(t *records.Tx, c access.Caller, b *Record, agents []*agentRecord) error {
	if p.Source == "" {
		p.Source = speaker(c, agents)
	}
	n := noticeRecord{Command: p.command, Entry: p.seq, From: p.Source, Snippet: snippet(p.content), Created: p.Created}
	for _, a := range agents {
		switch {
		case a.ID == c.Agent:
			continue
		case p.command != "":
			n.Kind = noticeControl
			a.Paused = p.command == commandPause
		case a.mentioned(p.mentions):
			n.Kind = noticeMention
			a.Mentions++
		case a.Lead:
			n.Kind = noticeChat
		default:
			continue
		}
		a.Last++
		a.Unread++
		a.Notices++
		p.Notified = append(p.Notified, notified{Agent: a.ID, Inbox: a.Inbox, Seq: a.Last, Kind: n.Kind})
		if err := t.PutJSON(records.Notice.Key(b.Incarnation, a.Inbox, a.Last), n); err != nil {
			return err
		}
		if err := t.PutJSON(records.BoardAgent.Key(b.Incarnation, a.ID), a); err != nil {
			return err
		}
	}
	return nil
}

// speaker is the source of a chat that names none: the agent's name, else the user's.
func speaker(c access.Caller, agents []*agentRecord) string {
	if c.Agent != "" {
		for _, a := range agents {
			if a.ID == c.Agent && a.DisplayName != "" {
				return a.DisplayName
			}
		}
		return c.Agent
	}
	for _, name := range []string{c.PreferredName, c.Name} {
		if name = strings.TrimSpace(name); name != "" {
			return name
		}
	}
	return tenant.DefaultSpeaker
}

// shown words a notification for its reader, who reaches this server at base.
func (n *noticeRecord) shown(b *Record, a *agentRecord, seq uint64, base string) Notification {
	out := Notification{ID: noticeID(a.Inbox, seq), Kind: n.Kind, Command: n.Command, BoardID: b.ID,
		MemoryID: entryID(b.Incarnation, n.Entry), From: n.From, Snippet: n.Snippet,
		ReplyTo: base + "/api/v1/agent/boards/" + b.ID + "/memory", CreatedAt: records.TimeOf(n.Created), Read: seq <= a.Acked}
	title := "BOARD CHAT"
	switch n.Kind {
	case noticeMention:
		title = "BOARD CHAT MENTION"
	case noticeControl:
		title = "BOARD CONTROL"
	}
	out.Text = title + "\nBoard: " + b.title() + "\nFrom: " + n.From + "\n\n" + n.Snippet +
		"\n\nReply via board chat:\nPOST " + out.ReplyTo + "\nBody: {\"content\":\"...\",\"tags\":[\"chat\"]}"
	return out
}

func noticeID(inbox ident.Incarnation, seq uint64) string {
	return numberedID(noticeIDPrefix, inbox, seq)
}
