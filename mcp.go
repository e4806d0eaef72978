package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
	"github.com/seed-0906e6bc/mneme/server/mcp"
)

// mcpConfig is the configuration of `mneme mcp`.
type mcpConfig struct {
	// Data is the folder to open if Server is empty.
	Data string
	// Server is the URL of a running server, and Key the key to use.
	Server, Key string
	// Project is the project whose memories the tools can use. Session is the model's own session; it may be empty.
	Project, Session string
	// Namespace limits the tools to memories in it and below it; nil means all of the project.
	Namespace []string
}

func readMCPConfig(args []string, env lookup, stderr io.Writer) (mcpConfig, error) {
	c, namespace := mcpConfig{Data: defaultData, Project: ident.DefaultProject}, ""
	_, err := readOptions(flag.NewFlagSet("mcp", flag.ContinueOnError), []option{
		{"data", "MNEME_DATA", "", &c.Data, "`FOLDER` to open, which no server may have open"},
		{"server", "MNEME_SERVER", "", &c.Server,
			"`URL` of a running server to use instead of a folder, with the key in MNEME_KEY"},
		{"project", "MNEME_PROJECT", "", &c.Project, "`PROJECT` whose memories the tools reach"},
		{"session", "MNEME_SESSION", "", &c.Session,
			"`SESSION` that daily and conversation memories are noted to be from"},
		{"memory-namespace", "MNEME_MEMORY_NAMESPACE", "", &namespace,
			"`NAMESPACE` that limits the tools to its memories, such as users/ada"},
		{"", "MNEME_KEY", "", &c.Key, ""}, // no flag: any user of the machine can read a command line
	}, args, env, stderr)
	if err == nil && c.Server != "" && c.Key == "" {
		err = errors.New("--server needs a key of the role agent in the environment variable MNEME_KEY")
	}
	if err == nil {
		c.Namespace, err = ident.ReadNamespace("--memory-namespace", namespace)
	}
	return c, err
}

// serveMCP speaks the Model Context Protocol on stdin and stdout until stdin or ctx ends. Nothing else may write to
// stdout.
func serveMCP(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) error {
	c, err := readMCPConfig(args, env, stderr)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	run := func(list []*mcp.Tool, call mcp.Call) error {
		return mcp.New(list, version(), log).Run(ctx, os.Stdin, unclosed{stdout},
			func(ctx context.Context, tc tools.Call) (tools.Result, error) {
				tc.SessionID, tc.MemoryNamespace = c.Session, c.Namespace
				return call(ctx, tc)
			})
	}
	if c.Server != "" {
		tools, call, err := mcp.Remote{URL: c.Server, Key: c.Key, Project: c.Project, Namespace: c.Namespace, Session: c.Session}.Open(ctx)
		if err != nil {
			return err
		}
		return run(tools, call)
	}
	err = withEngine(ctx, config{Data: c.Data}, log, func(e *engine.Engine, _ store.Store, _ string) error {
		// Anyone who can read the folder could do anything, but the tools only need the role agent.
		caller := ident.Caller{Tenant: ident.DefaultTenant, Role: ident.RoleAgent, KeyID: "mcp"}
		if _, err := e.Projects.Get(ctx, caller, c.Project); err != nil {
			return err
		}
		return run(mcp.DescribeAll(tools.All()), func(ctx context.Context, call tools.Call) (tools.Result,
			error) {
			return e.Tools.Call(ctx, caller, ident.Once{}, c.Project, call)
		})
	})
	if errors.Is(err, badgerstore.ErrLocked) {
		return fmt.Errorf("%w; if that is a server, use it: --server URL, with a key in MNEME_KEY", err)
	}
	return err
}

// unclosed is a writer whose Close does nothing, because another owner closes it.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
