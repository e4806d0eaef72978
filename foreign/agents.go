package foreign

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/foreign/sqlite"
)

// readAgents reads a database of the OpenAI Agents SDK. Rows of several sessions are mixed.
func readAgents(src *source) error {
	db, err := src.sqlite()
	if err != nil {
		return unreadablef("unreadable: %v", err)
	}
	table := db.Table("session_id", "message_data", "created_at")
	branches := map[string]string{}
	if t := db.Table("message_id", "branch_id"); t != nil {
		err := rows(db, t, func(r sqlite.Row) error {
			if id := r.Text("message_id"); branches[id] != "main" {
				branches[id] = r.Text("branch_id")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	sessions := map[string]*itemWriter{}
	err = rows(db, table, func(r sqlite.Row) error {
		if branch, ok := branches[r.Text("id")]; ok && branch != "main" {
			src.report.left(OtherBranch, 1)
			return nil
		}
		id := r.Text("session_id")
		if sessions[id] == nil {
			sessions[id] = src.items(Conversation{ID: "agents-" + id})
		}
		return sessions[id].row(r)
	})
	for _, id := range slices.Sorted(maps.Keys(sessions)) {
		if err == nil {
			err = sessions[id].end()
		}
	}
	return err
}

// rows visits the rows of a table. An error of the database is that of an unreadable file.
func rows(db *sqlite.DB, t *sqlite.Table, visit func(sqlite.Row) error) error {
	var visited error
	err := db.Rows(t, func(r sqlite.Row) error {
		visited = visit(r)
		return visited
	})
	if visited == nil && err != nil {
		return unreadablef("unreadable: %v", err)
	}
	return visited
}

// row adds the item of a row.
func (w *itemWriter) row(r sqlite.Row) error {
	raw := []byte(r.Text("message_data"))
	o := parseObject(raw)
	if o == nil {
		w.src.report.left(UnreadableLine, 1)
		return nil
	}
	return w.add(item{raw: raw, o: o, id: cmp.Or(r.Text("id"), shortHash(raw)), at: sqliteTime(r.Text("created_at"))})
}

func sqliteTime(s string) time.Time { return timeOf(strings.TrimSpace(s)) }
