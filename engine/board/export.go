package board

import (
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// line begins a board; its agents, its entries and its end follow. Notifications are not part of a file: they were
// sent, and what they tell of is.
type line struct {
	transfer.FileLine
	ID            string    `json:"id"`
	Name          string    `json:"name,omitempty"`
	RetentionDays *int      `json:"retention_days,omitempty"`
	Projects      []string  `json:"projects,omitempty"`
	Created       time.Time `json:"created_at"`
	Last          uint64    `json:"last"` // number of the newest entry there ever was
}

// agentLine and boardEntryLine belong to the board that was begun last, entries in their order.
type agentLine struct {
	transfer.FileLine
	Agent
}

type entryLine struct {
	transfer.FileLine
	Entry
}

// end ends a board. One that was deleted while it was being exported is to be forgotten.
type end struct {
	transfer.FileLine
	Entries uint64 `json:"entries"`
	Deleted bool   `json:"deleted,omitempty"`
}

func (p *Part) Export(x *transfer.Exporting) error {
	return transfer.EachExported(x, records.Board.All(), func(b *Record) error { return p.exportBoard(x, b) })
}

func (p *Part) exportBoard(x *transfer.Exporting, b *Record) error {
	feed, err := p.E.Export(x.Ctx, x.Caller, b.ID)
	if fault.IsNotFound(err) {
		return nil // deleted since its record was read
	}
	if err != nil {
		return err
	}
	defer feed.Close()
	if b, err = p.E.read(x.Ctx, x.Caller, b.ID); fault.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	agents, err := p.E.agents(x.Ctx, x.Caller.Tenant, b)
	if err != nil {
		return err
	}
	err = x.Put(line{transfer.FileLine{Type: "board"}, b.ID, b.Name, b.RetentionDays, b.Projects, b.Created, b.Last})
	if err != nil {
		return err
	}
	for _, a := range agents {
		if err := x.Put(agentLine{transfer.FileLine{Type: "board_agent"}, a.shown(b)}); err != nil {
			return err
		}
	}
	end := end{FileLine: transfer.FileLine{Type: "board_end"}}
	for {
		events, err := feed.Next(x.Ctx)
		if end.Deleted = fault.IsNotFound(err); end.Deleted || err == nil && len(events) == 0 {
			return x.Put(end)
		}
		if err != nil {
			return err
		}
		for _, event := range events {
			entry := event.Data.(Entry)
			if entry.Damaged {
				return fault.Errorf(fault.Internal, "storage_damaged",
					"entry %s of board %q cannot be read, so the export would not be whole",
					entry.ID, b.ID)
			}
			if err := x.Put(entryLine{transfer.FileLine{Type: "board_entry"}, entry}); err != nil {
				return err
			}
			end.Entries++
		}
	}
}
