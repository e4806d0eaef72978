package engine

import (
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// boardLine begins a board; its agents, its entries and its end follow. Notifications are not part of a file: they were
// sent, and what they tell of is.
type boardLine struct {
	fileLine
	ID            string    `json:"id"`
	Name          string    `json:"name,omitempty"`
	RetentionDays *int      `json:"retention_days,omitempty"`
	Projects      []string  `json:"projects,omitempty"`
	Created       time.Time `json:"created_at"`
	Last          uint64    `json:"last"` // number of the newest entry there ever was
}

// boardAgentLine and boardEntryLine belong to the board that was begun last, entries in their order.
type boardAgentLine struct {
	fileLine
	BoardAgent
}

type boardEntryLine struct {
	fileLine
	BoardEntry
}

// boardEnd ends a board. One that was deleted while it was being exported is to be forgotten.
type boardEnd struct {
	fileLine
	Entries uint64 `json:"entries"`
	Deleted bool   `json:"deleted,omitempty"`
}

func exportBoards(x *exporting) error {
	rng := prefixRange(boardKey("")[:2])
	rng.Limit = 64
	for {
		r, err := x.e.store.Read(x.ctx, x.caller.Tenant, store.Query{Ranges: []store.Range{rng}})
		if err != nil {
			return err
		}
		for _, it := range r.Ranges[0] {
			if it.Damaged {
				return errDamaged
			}
			b := new(board)
			if err := json.Unmarshal(it.Value, b); err != nil {
				return err
			}
			if err := x.board(b); err != nil {
				return err
			}
			rng.From = append(it.Key, 0)
		}
		if len(r.Ranges[0]) < rng.Limit {
			return nil
		}
	}
}

func (x *exporting) board(b *board) error {
	feed, err := x.e.ExportBoard(x.ctx, x.caller, b.ID)
	if isNotFound(err) {
		return nil // deleted since its record was read
	}
	if err != nil {
		return err
	}
	defer feed.Close()
	if b, err = x.e.readBoard(x.ctx, x.caller, b.ID); isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	agents, err := x.e.boardAgents(x.ctx, x.caller.Tenant, b)
	if err != nil {
		return err
	}
	err = x.put("board", boardLine{fileLine{"board"}, b.ID, b.Name, b.RetentionDays, b.Projects, b.Created, b.Last})
	if err != nil {
		return err
	}
	for _, a := range agents {
		if err := x.put("board_agent", boardAgentLine{fileLine{"board_agent"}, a.shown(b)}); err != nil {
			return err
		}
	}
	end := boardEnd{fileLine: fileLine{"board_end"}}
	for {
		events, err := feed.Next(x.ctx)
		if end.Deleted = isNotFound(err); end.Deleted || err == nil && len(events) == 0 {
			return x.put("board_end", end)
		}
		if err != nil {
			return err
		}
		for _, event := range events {
			entry := event.Data.(BoardEntry)
			if entry.Damaged {
				return errorf(Internal, "storage_damaged", "entry %s of board %q cannot be read, so the export would not be whole",
					entry.ID, b.ID)
			}
			if err := x.put("board_entry", boardEntryLine{fileLine{"board_entry"}, entry}); err != nil {
				return err
			}
			end.Entries++
		}
	}
}
