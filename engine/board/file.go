package board

import (
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// The lines of a board in a tenant's file, in this order. Notifications are not in the file: they have been sent, and
// the file contains their entries.
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
	Last          uint64    `json:"last"` // number of the newest entry ever
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

// endLine ends a board. A board that was deleted while it was exported is marked to be ignored.
type endLine struct {
	transfer.FileLine
	Entries uint64 `json:"entries"`
	Values  int    `json:"values,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
}

// Part reads and writes the boards in a tenant's file.
type Part struct {
	transfer.SimplePart
	Boards *Service
	at     *boardImport // the current board
}

// Types returns the types of the part's lines.
func (*Part) Types() []string { return []string{boardType, agentType, entryType, valueType, endType} }

// Export writes all boards. It returns storage_damaged if an entry cannot be read, because the file would be
// incomplete.
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
		if err := x.Put(agentLine{transfer.FileLine{Type: agentType}, a.public(b)}); err != nil {
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

// unlessDeleted drops the error for a board that was deleted after its record was read.
func unlessDeleted(err error) error {
	if fault.IsNotFound(err) {
		return nil
	}
	return err
}
