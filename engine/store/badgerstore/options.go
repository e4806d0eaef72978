package badgerstore

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// mainOptions keep what must survive a power cut.
func mainOptions(dir string) badger.Options {
	return commonOptions(dir).
		WithSyncWrites(true).
		WithBlockCacheSize(64 << 20).
		WithIndexCacheSize(32 << 20)
}

// looseOptions keep what need only survive the process: written once, seldom read, expired soon.
func looseOptions(dir string) badger.Options {
	return commonOptions(dir).
		WithSyncWrites(false).
		WithBlockCacheSize(16 << 20).
		WithIndexCacheSize(8 << 20)
}

const (
	memtableSize = 64 << 20
	memtables    = 3
)

func commonOptions(dir string) badger.Options {
	return badger.DefaultOptions(dir).
		// A transaction holds at most 15 % of a memtable, and a batch of store.MaxBatch must fit one.
		WithMemTableSize(memtableSize).
		WithNumMemtables(memtables).
		WithNumCompactors(2).
		// Every value is shorter than the threshold, so the value log stays empty and may be small.
		WithValueThreshold(1 << 20).
		WithValueLogFileSize(1 << 20).
		// OnTableAndBlockRead panics on the first damaged block.
		WithChecksumVerificationMode(options.OnBlockRead).
		// There is one committer, so no transactions run against each other.
		WithDetectConflicts(false).
		WithMetricsEnabled(false)
}

func (o Options) compressed(b badger.Options) badger.Options {
	if o.Uncompressed {
		return b.WithCompression(options.None)
	}
	return b
}

// badgerLog passes on what Badger says. Its debug lines are left out: they hold keys.
type badgerLog struct{ log *slog.Logger }

func (l badgerLog) Errorf(format string, args ...any)   { l.log.Error(line(format, args)) }
func (l badgerLog) Warningf(format string, args ...any) { l.log.Warn(line(format, args)) }
func (l badgerLog) Infof(format string, args ...any)    { l.log.Debug(line(format, args)) }
func (l badgerLog) Debugf(string, ...any)               {}

func line(format string, args []any) string {
	return "badger: " + strings.TrimSpace(fmt.Sprintf(format, args...))
}
