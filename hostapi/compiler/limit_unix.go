//go:build linux || darwin

package compiler

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// niceness gives the server's own work priority over a compiler.
const niceness = 10

// limitSelf limits this process until it ends. The time limit also ends a child whose parent is gone.
func limitSelf(memory, seconds int64) error {
	for _, l := range []struct {
		resource  int
		soft, max uint64
	}{
		// RLIMIT_DATA limits writable memory. Go reserves far more address space than it uses.
		{syscall.RLIMIT_DATA, uint64(memory), uint64(memory)},
		// At the soft limit, Go's runtime ends the process and says why; at the hard limit, the kernel kills it.
		{syscall.RLIMIT_CPU, uint64(seconds), uint64(seconds) + 1},
		{syscall.RLIMIT_CORE, 0, 0},
	} {
		limit := syscall.Rlimit{Cur: l.soft, Max: l.max}
		if err := syscall.Setrlimit(l.resource, &limit); err != nil {
			return fmt.Errorf("limiting resource %d to %d: %w", l.resource, l.soft, err)
		}
	}
	return syscall.Setpriority(syscall.PRIO_PROCESS, 0, niceness)
}

// ownGroup makes a command the leader of a process group, which is killed as a whole.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// killed reports whether a process was ended by the signal that a limit or ownGroup sends.
func killed(p *os.ProcessState) bool {
	status, ok := p.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGXCPU)
}

// checkOwner refuses a directory that belongs to another user, because the machine code in it is executed. It removes
// the permissions of others.
func checkOwner(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user", dir)
	}
	return os.Chmod(dir, 0o700)
}
