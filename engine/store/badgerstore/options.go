package badgerstore

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// main returns the options of the database that must survive a power cut.
func (o Options) main() badger.Options {
	return o.common("main").
		WithSyncWrites(true).
		WithBlockCacheSize(o.cache(64 << 20)).
		WithIndexCacheSize(o.cache(32 << 20))
}

// loose returns the options of the database that need only survive the process: written once, seldom read, expired
// soon.
func (o Options) loose() badger.Options {
	return o.common("loose").
		WithSyncWrites(false).
		WithBlockCacheSize(o.cache(16 << 20)).
		WithIndexCacheSize(o.cache(8 << 20))
}

const (
	// A transaction holds at most 15 % of a memtable, and a batch of store.MaxBatch must fit into one.
	memtableSize = 64 << 20
	// valuesSize is the size of a database's cache for recently read keys and values, in bytes.
	valuesSize = 4 << 20
	// waitingMemtables is the number of full memtables that may wait to be written to tables, in addition to the one
	// that is being written. Each takes about 83 MB; more than one does not make writers faster.
	waitingMemtables = 1
	// levelZeroTables is the number of tables in level 0, each as large as a memtable, that are compacted together.
	levelZeroTables = 5
	// baseLevelSize is the size up to which the level below level 0 grows before data moves further down. With less
	// than level 0 passes on at once, most data would be rewritten once for each level.
	baseLevelSize = levelZeroTables * memtableSize
	// tableGrowth is the ratio of the table sizes of neighbouring levels. There are fewer levels than with Badger's base
	// level, so with its ratio of 2 the tables would be smaller, and more file descriptors would be needed.
	tableGrowth = 4
	// ample is the memory from which caches have their full size.
	ample = 2 << 30
)

// cache returns the size of a cache whose full size is given. It shrinks with the memory, down to an eighth.
func (o Options) cache(full int64) int64 {
	if o.Memory <= 0 || o.Memory >= ample {
		return full
	}
	return max(full/8, full*o.Memory/ample)
}

func (o Options) common(name string) badger.Options {
	b := badger.DefaultOptions(filepath.Join(o.Dir, name))
	if o.Uncompressed {
		b = b.WithCompression(options.None)
	}
	b.TableSizeMultiplier = tableGrowth
	return b.
		WithMemTableSize(memtableSize).
		WithNumMemtables(waitingMemtables).
		WithNumCompactors(2).
		WithNumLevelZeroTables(levelZeroTables).
		WithBaseLevelSize(baseLevelSize).
		// Every value is shorter than the threshold, so the value log remains empty and may be small.
		WithValueThreshold(1 << 20).
		WithValueLogFileSize(1 << 20).
		// OnTableAndBlockRead panics on the first damaged block.
		WithChecksumVerificationMode(options.OnBlockRead).
		// There is one committer, so transactions do not run concurrently.
		WithDetectConflicts(false).
		WithMetricsEnabled(false)
}

// badgerLog forwards Badger's log, except for its debug lines, because they contain keys.
type badgerLog struct{ log *slog.Logger }

func (l badgerLog) Errorf(format string, args ...any)   { l.log.Error(line(format, args)) }
func (l badgerLog) Warningf(format string, args ...any) { l.log.Warn(line(format, args)) }
func (l badgerLog) Infof(format string, args ...any)    { l.log.Debug(line(format, args)) }
func (l badgerLog) Debugf(string, ...any)               {}

func line(format string, args []any) string {
	return "badger: " + strings.TrimSpace(fmt.Sprintf(format, args...))
}
