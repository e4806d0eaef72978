package main

import (
	"bufio"
	"io/fs"
	"log/slog"
	"math"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// garbage is how much garbage may gather before it is collected, in percent of what is in use. Most of that are the
// store's tables in memory, which the collector need not look through, so that collecting often costs little.
const garbage = 25

// limitMemory gives Go a soft limit of nine tenths of the memory that the process may use, so that the garbage
// collector works harder before the system ends the process. The rest is for what Go does not count: memory
// maps of the database, machine code, and the child that compiles policies. GOMEMLIMIT and GOGC, which Go reads itself,
// win.
func limitMemory(env lookup, system fs.FS, log *slog.Logger) {
	if said, _ := env("GOGC"); said == "" {
		debug.SetGCPercent(garbage)
	}
	if said, _ := env("GOMEMLIMIT"); said != "" {
		log.Info("memory limit", "bytes", debug.SetMemoryLimit(-1), "from", "GOMEMLIMIT")
		return
	}
	if most, from := memoryOf(system); most > 0 {
		debug.SetMemoryLimit(most / 10 * 9)
		log.Info("memory limit", "bytes", most/10*9, "from", from)
	}
}

// memoryOf is how many bytes the process may use, and what says so: the tightest of its control groups, else the
// machine. 0: unknown, which is every system but Linux.
func memoryOf(system fs.FS) (most int64, from string) {
	most = math.MaxInt64
	note := func(bytes int64, of string) {
		if 0 < bytes && bytes < most {
			most, from = bytes, of
		}
	}
	for _, line := range linesOf(system, "proc/meminfo") {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			note(kib<<10, "machine")
		}
	}
	// A line is NUMBER:CONTROLLERS:PATH; version 2 has no controllers. In a container the path may be the host's, while
	// the limit stands at the root of what is mounted, so all folders up to the root are looked at.
	for _, line := range linesOf(system, "proc/self/cgroup") {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 {
			continue
		}
		root, file := "sys/fs/cgroup", "memory.max"
		if parts[1] != "" {
			root, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
			if parts[1] != "memory" {
				continue
			}
		}
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			for _, line := range linesOf(system, path.Join(root, at, file)) {
				bytes, _ := strconv.ParseInt(line, 10, 64) // "max" is no limit
				note(bytes, "cgroup")
			}
			if at == "/" {
				break
			}
		}
	}
	if from == "" {
		return 0, ""
	}
	return most, from
}

// linesOf reads a small file; one that cannot be read has no lines.
func linesOf(system fs.FS, name string) (lines []string) {
	f, err := system.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		lines = append(lines, strings.TrimSpace(in.Text()))
	}
	return lines
}
