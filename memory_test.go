package main

import (
	"testing"
	"testing/fstest"
)

// A small live heap may be followed by as much garbage, a large one by an eighth of it.
func TestGarbageOf(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 10 << 20: 100, 64 << 20: 100, 128 << 20: 50, 256 << 20: 25, 512 << 20: 12, 4 << 30: 12} {
		if got := garbageOf(live); got != want {
			t.Errorf("with %d MiB of live heap, %d %%, want %d", live>>20, got, want)
		}
	}
}

func TestMemoryOf(t *testing.T) {
	const machine = "MemTotal:       16000000 kB\nMemFree:  1 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		most  int64
		from  string
	}{
		"version 2": {map[string]string{"proc/self/cgroup": "0::/app/one\n", "sys/fs/cgroup/app/one/memory.max": "max\n",
			"sys/fs/cgroup/app/memory.max": "1073741824\n"}, 1 << 30, "cgroup"},
		"version 1": {map[string]string{"proc/self/cgroup": "5:cpu:/a\n4:memory:/a\n0::/\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "536870912\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n"}, 512 << 20, "cgroup"},
		"a container that sees the host's path": {map[string]string{"proc/self/cgroup": "4:memory:/docker/xyz\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n"}, 256 << 20, "cgroup"},
		"no limit":              {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 16000000 << 10, "machine"},
		"more than the machine": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "99999999999999\n"}, 16000000 << 10, "machine"},
		"nothing known":         {map[string]string{"proc/meminfo": ""}, 0, ""},
	} {
		system := fstest.MapFS{"proc/meminfo": {Data: []byte(machine)}}
		for file, text := range c.files {
			system[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if most, from := memoryOf(system); most != c.most || from != c.from {
			t.Errorf("%s: %d from %q, want %d from %q", name, most, from, c.most, c.from)
		}
	}
}
