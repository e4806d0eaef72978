package store

import (
	"errors"
	"fmt"
)

// Errors that a store answers. Wrapped errors add context, never keys or values.
var (
	// ErrNoSpace refuses a write because the disk is nearly full. Reads go on.
	ErrNoSpace = errors.New("not enough free space to write safely")
	// ErrFailed refuses every write after a commit whose outcome is unknown, until the process is restarted.
	ErrFailed = errors.New("store stopped writing after a commit of unknown outcome")
	// ErrUnavailable is answered where the database is away or too contended. Nothing was written.
	ErrUnavailable = errors.New("the database cannot be reached or is too busy")
	// ErrUnknown is answered by a commit that was under way when the database was lost, and stayed lost: it may or may
	// not have happened. Reads and later commits are not affected.
	ErrUnknown = errors.New("the database was lost during a commit, whose outcome is unknown")
	// ErrTooLarge refuses what exceeds the Max constants.
	ErrTooLarge = errors.New("request exceeds the store's limits")
	// ErrMixed refuses a batch that mixes loose and synced keys.
	ErrMixed = errors.New("batch mixes loose and synced keys")
	// ErrDuplicate refuses a batch that puts or deletes one key twice.
	ErrDuplicate = errors.New("batch writes one key twice")
	// ErrClosed is answered after Close.
	ErrClosed = errors.New("store is closed")
)

// ConflictError says which precondition of a batch did not hold. Nothing was written.
type ConflictError struct{ Index int }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("precondition %d does not hold", e.Index)
}
