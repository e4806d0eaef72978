package compiler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Names of the checks that compiling consists of.
const (
	CheckCompile = "compile"
	checkTime    = "compile_ms"
	checkMemory  = "compile_memory"
	checkCode    = "machine_code_bytes"
)

// wallTimes is the ratio of a child's limits on elapsed time and on CPU time. A bomb reaches the limit on CPU time
// first, unless the machine is so busy that the child gets less than a tenth of a processor.
const wallTimes = 10

// run compiles a module in a child, into a directory. The error is a *plan.Refusal if the module is at fault.
func (c *Compiler) run(ctx context.Context, dir string, module []byte) error {
	wall, cancel := context.WithTimeout(ctx, c.wall)
	defer cancel()
	args := childArgs{dir: dir, memory: c.memory, seconds: int64((c.time + time.Second - 1) / time.Second)}
	words := &head{room: 1 << 10}
	cmd := exec.CommandContext(wall, c.command[0], append(c.command[1:len(c.command):len(c.command)],
		args.list()...)...)
	cmd.Dir = dir
	cmd.Env = []string{"GOMAXPROCS=1"} // at most one core, and none of the server's environment, which may contain keys
	cmd.Stdin, cmd.Stderr = bytes.NewReader(module), words
	cmd.WaitDelay = time.Second
	ownGroup(cmd)
	err := cmd.Run()
	if err == nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	if cmd.ProcessState == nil {
		return fmt.Errorf("starting the compiler: %w", err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	code := cmd.ProcessState.ExitCode()
	switch {
	case words.says("SIGXCPU"), killed(cmd.ProcessState) && used >= c.time*9/10:
		used = max(used, c.time) // measured by the kernel, whose clock for limits is coarser
		fallthrough
	case wall.Err() != nil:
		return &plan.Refusal{Check: checkTime, Found: used.Milliseconds(), Limit: c.time.Milliseconds(),
			Detail: fmt.Sprintf("stopped after computing for %v; the limit is %v", used.Round(time.Millisecond),
				c.time)}
	case code != exitRefused && words.says("out of memory", "cannot allocate memory"):
		return &plan.Refusal{Check: checkMemory, Limit: c.memory,
			Detail: fmt.Sprintf("stopped when it needed more than %d bytes", c.memory)}
	case code == exitRefused:
		return &plan.Refusal{Check: CheckCompile, Detail: words.line()}
	case code == exitCrashed:
		return &plan.Refusal{Check: CheckCompile, Detail: "the compiler failed: " + words.line()}
	}
	return fmt.Errorf("the compiler ended with %w: %s", err, words.line())
}

// head keeps the first bytes that are written to it.
type head struct {
	text []byte
	room int
}

func (h *head) Write(b []byte) (int, error) {
	n := min(len(b), h.room)
	h.text, h.room = append(h.text, b[:n]...), h.room-n
	return len(b), nil
}

func (h *head) says(any ...string) bool {
	for _, words := range any {
		if bytes.Contains(h.text, []byte(words)) {
			return true
		}
	}
	return false
}

func (h *head) line() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(h.text)), "\n")
	return strings.ToValidUTF8(line, "\uFFFD")
}
