package memory

import (
	"fmt"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// Precondition is what a write expects of the memory that it changes. It is checked in the commit that changes the
// memory. The zero value expects nothing. An expired memory counts as missing.
type Precondition struct {
	// Match lists ETags, one of which the memory must have. "*" stands for any ETag.
	Match []string
	// NoneMatch lists ETags, none of which the memory may have. With "*" there must be no memory.
	NoneMatch []string
	// Version is the version that the memory must have; 0 means that there must be no memory, nil that any will do.
	Version *int
}

// check returns version_mismatch if the memory is not as expected. now is the live memory, or nil if there is none.
func (p *Precondition) check(id string, now *Record) error {
	version, tag := 0, ""
	if now != nil {
		version, tag = now.Version, now.ETag
	}
	has := func(one string) bool { return now != nil && (one == "*" || one == tag) }
	switch {
	case len(p.Match) > 0 && !slices.ContainsFunc(p.Match, has):
	case slices.ContainsFunc(p.NoneMatch, has):
	case p.Version != nil && *p.Version != version:
	default:
		return nil
	}
	err := fault.Errorf(fault.Precondition, "version_mismatch",
		"there is no memory %q; another writer may have forgotten it", id)
	if now != nil {
		err.Detail = fault.Words("the memory %q is at version %d; read it again, and base the change on it", id,
			version)
	}
	err.Current = &fault.Current{Version: version, ETag: tag}
	return err
}

// etag returns the ETag of a version of a memory. It contains the incarnation, because versions count from 1 again
// after a memory was forgotten.
func etag(version int, in ident.Incarnation) string { return fmt.Sprintf(`"%d-%x"`, version, in[:4]) }
