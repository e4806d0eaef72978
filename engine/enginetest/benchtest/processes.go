package benchtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ProcessorTimeOf returns the processor time of processes so far, as Linux's scheduler counts it, without that of
// threads and processes that have ended. On other systems it is 0.
func ProcessorTimeOf(pids ...int) (used time.Duration) {
	for _, pid := range pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, file := range files {
			stat, _ := os.ReadFile(file)
			first, _, _ := strings.Cut(string(stat), " ")
			ns, _ := strconv.ParseInt(first, 10, 64)
			used += time.Duration(ns)
		}
	}
	return used
}
