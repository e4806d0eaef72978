package main

import (
	"bufio"
	"context"
	"io/fs"
	"log/slog"
	"math"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// The amount of garbage that triggers a collection: smallGarbage bytes, but at least minGarbage and at most maxGarbage
// percent of the live heap. A large live heap is mostly the store's memtables, which the collector does not scan, so
// frequent collections cost little: with 64 writers, 12 instead of 25 percent take 2 % of the processor time and save 80
// MB. With a small heap, they take a sixth of the processor time of a window.
const (
	smallGarbage           = 64 << 20
	minGarbage, maxGarbage = 12, 100
	garbageInterval        = time.Second // between two looks at the live heap
)

// garbageOf returns the amount of garbage that triggers a collection, in percent of so many bytes of live heap.
func garbageOf(live uint64) int {
	return int(max(minGarbage, min(maxGarbage, 100*smallGarbage/max(1, live))))
}

// limitGarbage adapts the collector to the live heap until ctx ends. GOGC, which Go reads itself, takes precedence.
func limitGarbage(ctx context.Context, env lookup) {
	said, _ := env("GOGC")
	if said != "" {
		return
	}
	ticker := time.NewTicker(garbageInterval)
	defer ticker.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for set := 0; ; {
		metrics.Read(live)
		if percent := garbageOf(live[0].Value.Uint64()); percent != set {
			debug.SetGCPercent(percent)
			set = percent
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// limitMemory sets Go's soft memory limit to nine tenths of the memory that the process may use, so that the garbage
// collector works harder before the system ends the process. The rest is for what Go does not count: memory maps of
// the database, machine code, and the child process that compiles policies. GOMEMLIMIT, which Go reads itself, takes
// precedence.
func limitMemory(env lookup, system fs.FS, log *slog.Logger) {
	if said, _ := env("GOMEMLIMIT"); said != "" {
		log.Info("memory limit", "bytes", debug.SetMemoryLimit(-1), "from", "GOMEMLIMIT")
		return
	}
	if most, from := memoryOf(system); most > 0 {
		debug.SetMemoryLimit(most / 10 * 9)
		log.Info("memory limit", "bytes", most/10*9, "from", from)
	}
}

// memoryOf returns the number of bytes that the process may use and the source of that number: the tightest limit of
// its control groups, or else the machine's memory. It returns 0 if unknown, which is the case on all systems but
// Linux.
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
	// A line is NUMBER:CONTROLLERS:PATH; version 2 has no controllers. In a container the path may be the host's
	// while the limit is at the root of the mount, so all folders up to the root are read.
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
				bytes, _ := strconv.ParseInt(line, 10, 64) // "max" means no limit
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

// linesOf returns the lines of a small file, or none if it cannot be read.
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
