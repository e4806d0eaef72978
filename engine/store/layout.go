package store

import "fmt"

// Layout is the version of the layout of stored records. Increase it with any change after which an earlier version
// of Mneme cannot read new records, or this version cannot read old ones. Data folders, backups and tenants' export
// files name it, and one with another number is refused.
const Layout = 2

// LayoutError is returned for data that a version of Mneme with another layout of stored records wrote.
type LayoutError struct {
	What   string // the refused thing
	Layout int    // its number; 0: from before layouts were numbered
}

func (e *LayoutError) Error() string {
	from := fmt.Sprintf("a version of Mneme with layout %d", e.Layout)
	if e.Layout == 0 {
		from = "a version of Mneme from before layouts were numbered"
	}
	return fmt.Sprintf("%s was written by %s, and this version reads layout %d: export its tenants with a version that "+
		"reads it, and import them here", e.What, from, Layout)
}
