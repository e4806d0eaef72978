package board

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/ident"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

const (
	commandPause  = "/pause"
	commandResume = "/resume"
	leadName      = "lead" // in a mention, means the board's lead
	maxSnippet    = 800    // in characters, including the ellipsis of a truncated text
	ellipsis      = "..."
)

// commandOf returns the control command in a chat message, or "".
func commandOf(content string) string {
	switch command := strings.ToLower(strings.TrimSpace(content)); command {
	case commandPause, commandResume:
		return command
	}
	return ""
}

// mentionsIn returns the distinct names that follow an @, in lower case. A name has at most 64 bytes.
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

// mentionable reports whether a mention may contain a byte or, if first is set, begin with it.
func mentionable(c byte, first bool) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return !first && (c == '_' || c == '-')
}

// mentioned reports whether one of the names refers to the agent: its id, the first word of its display name, or
// "lead".
func (a *agentRecord) mentioned(names []string) bool {
	if slices.Contains(names, strings.ToLower(a.ID)) || a.Lead && slices.Contains(names, leadName) {
		return true
	}
	words := strings.Fields(strings.ToLower(a.DisplayName))
	return len(words) > 0 && slices.Contains(names, words[0])
}

// snippet returns the part of an entry that a notification shows.
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

// notify collects the notifications for a chat message. A control command goes to every agent and sets whether it is
// paused. Any other chat message goes to the agents that it mentions and to the lead. The sender is not notified.
func (d *draft) notify(t *records.Tx, c ident.Caller, b *boardRecord, agents []*agentRecord) error {
	n := noticeRecord{Command: d.command, Entry: d.Seq, From: d.Source, Unverified: d.Unverified, Snippet: snippet(d.Content), Created: d.Created}
	for _, a := range agents {
		switch {
		case a.ID == c.Agent:
			continue
		case d.command != "":
			n.Kind = noticeControl
			a.Paused = d.command == commandPause
		case a.mentioned(d.mentions):
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
		d.Notified = append(d.Notified, Notified{Agent: a.ID, Inbox: a.Inbox, Seq: a.Last, Kind: n.Kind})
		if err := t.PutJSON(records.Notice.Key(b.Incarnation, a.Inbox, a.Last), n); err != nil {
			return err
		}
		if err := a.put(t, b); err != nil {
			return err
		}
	}
	return nil
}

// verify marks a source that is not the sender's own, and names the sender of a chat without a source.
func (d *draft) verify(c ident.Caller, agents []*agentRecord) {
	own := speaker(c, agents)
	switch {
	case d.Source == "" && d.IsChat():
		d.Source = own
	case d.Source != "":
		d.Unverified = d.Source != own && (c.Agent == "" || d.Source != c.Agent)
	}
}

// mayCommand reports whether a caller may post a command on the board. Keys without an agent may, and so may the
// board's lead and the agents named in its settings.
func (b *boardRecord) mayCommand(c ident.Caller, agents []*agentRecord) bool {
	lead := func(a *agentRecord) bool { return a.Lead && a.ID == c.Agent }
	return c.Agent == "" || slices.ContainsFunc(agents, lead) || slices.Contains(b.Commanders, c.Agent)
}

// speaker returns the sender's own name: the agent's, or else the user's.
func speaker(c ident.Caller, agents []*agentRecord) string {
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
