// Package compiler compiles admitted modules to machine code without putting the server at risk. A module of a few
// kilobytes can make an optimising compiler take minutes and gigabytes, and a compiler cannot be interrupted. Therefore
// it runs in a child process of the same program, which is killed when it takes too much. The machine code is kept on
// disk; the server loads it within milliseconds, also after a restart.
package compiler

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Config returns how machine code is made and run. Parent and child must use the same.
func Config() wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigCompiler().WithDebugInfoEnabled(false)
}

// Options of a Compiler. All but Dir must be set.
type Options struct {
	Dir     string        // for machine code of this process only; empty means a temporary directory, until Close
	Command []string      // starts a child; the arguments of Main follow
	Time    time.Duration // CPU time of one child
	Memory  int64         // of one child, in bytes
	Bytes   int64         // machine code on disk, in bytes
}

// Compiler makes machine code and keeps it. It is safe for concurrent use.
type Compiler struct {
	command []string
	time    time.Duration // CPU time of a child
	wall    time.Duration // elapsed time of a child
	memory  int64
	own     string // a directory to remove at Close; empty if none
	disk    *disk
	cache   wazero.CompilationCache
	loading [256]sync.Mutex // by the module's digest, because the runtime must not load a module twice at once
}

// Open returns a compiler with a directory, which it creates if it does not exist.
func Open(o Options) (_ *Compiler, err error) {
	if len(o.Command) == 0 {
		return nil, errors.New("no command to compile with")
	}
	c := &Compiler{command: o.Command, time: o.Time, wall: wallTimes * o.Time, memory: o.Memory}
	if o.Dir == "" {
		if c.own, err = os.MkdirTemp("", "mneme-compiled-"); err != nil {
			return nil, err
		}
		o.Dir = c.own
	}
	// The child's working directory is another one.
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, errors.Join(err, c.removeOwn())
	}
	if c.disk, err = openDisk(o.Dir, o.Bytes); err == nil {
		c.cache, err = wazero.NewCompilationCacheWithDir(o.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, c.removeOwn())
	}
	return c, nil
}

func (c *Compiler) removeOwn() error {
	if c.own == "" {
		return nil
	}
	return os.RemoveAll(c.own)
}

// Close frees everything that the runtimes with Cache share. They must be closed before.
func (c *Compiler) Close(ctx context.Context) error {
	return errors.Join(c.cache.Close(ctx), c.removeOwn())
}

// Cache returns the cache that a runtime must have for Load to work with it.
func (c *Compiler) Cache() wazero.CompilationCache { return c.cache }

// Compile makes the machine code of an admitted module and keeps it. The error is a *plan.Refusal if the module is at
// fault.
func (c *Compiler) Compile(ctx context.Context, module []byte) error {
	dir, err := c.disk.stage()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := c.run(ctx, dir, module); err != nil {
		return err
	}
	return c.disk.keep(sha256.Sum256(module), dir)
}

// Code is machine code that was loaded into a runtime. Its file is kept until Close.
type Code struct {
	Module wazero.CompiledModule
	Size   int64 // in bytes

	disk  *disk
	entry *entry // nil if it has no file
}

// Close unloads the code. No instance of it may be running.
func (c *Code) Close(ctx context.Context) error { return c.close(ctx, true) }

// Discard is Close for code that is no longer wanted: its file is removed, too.
func (c *Code) Discard(ctx context.Context) error { return c.close(ctx, false) }

func (c *Code) close(ctx context.Context, useful bool) error {
	if c.entry != nil {
		c.disk.close(c.entry, useful)
	}
	return c.Module.Close(ctx)
}

// Has reports whether the machine code of a module is kept.
func (c *Compiler) Has(module []byte) bool { return c.disk.has(sha256.Sum256(module)) }

// Load loads the machine code of a module into a runtime. It returns nil if there is none. It never compiles.
func (c *Compiler) Load(ctx context.Context, r wazero.Runtime, module []byte) (*Code, error) {
	sum := sha256.Sum256(module)
	one := &c.loading[sum[0]]
	one.Lock()
	defer one.Unlock()
	e := c.disk.open(sum)
	if e == nil {
		return nil, nil
	}
	m, err := load(ctx, r, module)
	if err == nil {
		return &Code{Module: m, Size: e.size, disk: c.disk, entry: e}, nil
	}
	c.disk.close(e, false)
	if errors.Is(err, context.Canceled) {
		return nil, nil // the file was made for another processor
	}
	return nil, &plan.Refusal{Check: CheckCompile, Detail: err.Error()}
}

// load finds a module in the runtime's cache, or fails with context.Canceled. The context is cancelled in advance: with
// two workers, the compiler checks the context before it starts, whereas reading the cache does not check it.
func load(ctx context.Context, r wazero.Runtime, module []byte) (_ wazero.CompiledModule, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the module cannot be read: %v", r)
		}
	}()
	cancelled, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel()
	return r.CompileModule(experimental.WithCompilationWorkers(cancelled, 2), module)
}
