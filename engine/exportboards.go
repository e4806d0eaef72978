package engine

import (
	"time"
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

func (p *boardPart) export(x *exporting) error {
	return eachExported(x, kindBoard.Key("")[:2], func(b *board) error { return p.exportBoard(x, b) })
}

func (p *boardPart) exportBoard(x *exporting, b *board) error {
	feed, err := p.e.ExportBoard(x.ctx, x.caller, b.ID)
	if isNotFound(err) {
		return nil // deleted since its record was read
	}
	if err != nil {
		return err
	}
	defer feed.Close()
	if b, err = p.e.readBoard(x.ctx, x.caller, b.ID); isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	agents, err := p.e.boardAgents(x.ctx, x.caller.Tenant, b)
	if err != nil {
		return err
	}
	err = x.put(boardLine{fileLine{"board"}, b.ID, b.Name, b.RetentionDays, b.Projects, b.Created, b.Last})
	if err != nil {
		return err
	}
	for _, a := range agents {
		if err := x.put(boardAgentLine{fileLine{"board_agent"}, a.shown(b)}); err != nil {
			return err
		}
	}
	end := boardEnd{fileLine: fileLine{"board_end"}}
	for {
		events, err := feed.Next(x.ctx)
		if end.Deleted = isNotFound(err); end.Deleted || err == nil && len(events) == 0 {
			return x.put(end)
		}
		if err != nil {
			return err
		}
		for _, event := range events {
			entry := event.Data.(BoardEntry)
			if entry.Damaged {
				return errorf(Internal, "storage_damaged",
					"entry %s of board %q cannot be read, so the export would not be whole",
					entry.ID, b.ID)
			}
			if err := x.put(boardEntryLine{fileLine{"board_entry"}, entry}); err != nil {
				return err
			}
			end.Entries++
		}
	}
}
