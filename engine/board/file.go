package board

import (
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// The lines of a board in a tenant's file, in this order. Notifications are not in the file: they were sent, and the
// entries that they tell of are there.
const (
	boardType = "board"
	agentType = "board_agent"
	entryType = "board_entry"
	valueType = "board_value"
	endType   = "board_end"
)

type boardLine struct {
	transfer.FileLine
	ID            string    `json:"id"`
	Name          string    `json:"name,omitempty"`
	RetentionDays *int      `json:"retention_days,omitempty"`
	Projects      []string  `json:"projects,omitempty"`
	Commanders    []string  `json:"commanders,omitempty"`
	Created       time.Time `json:"created_at"`
	Last          uint64    `json:"last"` // number of the newest entry there ever was
}

type agentLine struct {
	transfer.FileLine
	Agent
}

type entryLine struct {
	transfer.FileLine
	Entry
}

type valueLine struct {
	transfer.FileLine
	Value
}

// endLine ends a board. A board that was deleted while it was exported is to be forgotten.
type endLine struct {
	transfer.FileLine
	Entries uint64 `json:"entries"`
	Values  int    `json:"values,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
}

// Part is what a tenant's file holds of boards.
type Part struct {
	transfer.SimplePart
	Boards *Service
	at     *boardImport // the board at hand
}

// Types are the types of the lines that are the part's own.
func (*Part) Types() []string { return []string{boardType, agentType, entryType, valueType, endType} }

// Export writes all boards. It answers storage_damaged where an entry cannot be read, because the file would not be
// whole.
func (p *Part) Export(x *transfer.Exporting) error {
	return transfer.EachExported(x, records.Board.All(), func(b *boardRecord) error { return p.exportBoard(x, b) })
}

func (p *Part) exportBoard(x *transfer.Exporting, b *boardRecord) error {
	feed, err := p.Boards.Export(x.Ctx, x.Caller, b.ID)
	if err != nil {
		return unlessDeleted(err)
	}
	defer feed.Close()
	if b, err = p.Boards.read(x.Ctx, x.Caller, b.ID); err != nil {
		return unlessDeleted(err)
	}
	agents, err := p.Boards.agents(x.Ctx, x.Caller.Tenant, b)
	if err != nil {
		return err
	}
	err = x.Put(boardLine{transfer.FileLine{Type: boardType}, b.ID, b.Name, b.RetentionDays, b.Projects, b.Commanders, b.Created,
		b.Last})
	if err != nil {
		return err
	}
	for _, a := range agents {
		if err := x.Put(agentLine{transfer.FileLine{Type: agentType}, a.shown(b)}); err != nil {
			return err
		}
	}
	end := endLine{FileLine: transfer.FileLine{Type: endType}}
	for {
		events, err := feed.Next(x.Ctx)
		if end.Deleted = fault.IsNotFound(err); end.Deleted || err == nil && len(events) == 0 {
			return x.Put(end)
		}
		if err != nil {
			return err
		}
		for _, event := range events {
			if value, ok := event.Data.(Value); ok {
				if err := x.Put(valueLine{transfer.FileLine{Type: valueType}, value}); err != nil {
					return err
				}
				end.Values++
				continue
			}
			entry := event.Data.(Entry)
			if entry.Damaged {
				return fault.Errorf(fault.Internal, "storage_damaged",
					"entry %s of board %q cannot be read, so the export would not be whole", entry.ID, b.ID)
			}
			if err := x.Put(entryLine{transfer.FileLine{Type: entryType}, entry}); err != nil {
				return err
			}
			end.Entries++
		}
	}
}

// unlessDeleted leaves out the error that a board is not there, because it was deleted since its record was read.
func unlessDeleted(err error) error {
	if fault.IsNotFound(err) {
		return nil
	}
	return err
}
