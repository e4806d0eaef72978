// Package pgtest runs a PostgreSQL of its own for tests: a private cluster in a folder of its own, reached by a Unix
// socket, durable as by default.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNotInstalled is answered by Start where the machine has no PostgreSQL.
var ErrNotInstalled = errors.New("PostgreSQL is not installed (Debian: apt-get install postgresql)")

// port only names the socket's file: nothing listens on the network.
const port = "5432"

// patience bounds the waits for the database itself.
const patience = time.Minute

// Cluster is a running PostgreSQL.
type Cluster struct {
	folder string
	bin    string
	owner  *syscall.Credential // nil: whoever runs the tests
	names  atomic.Int64

	running *running
}

// running is one run of the server, under a shell that ends it when its input does: a test that is killed leaves no
// database behind.
type running struct {
	cmd   *exec.Cmd
	input io.WriteCloser
}

const underShell = `"$@" & child=$!; read how; kill -"${how:-QUIT}" $child 2>/dev/null; wait $child`

// Start makes and starts a cluster.
func Start() (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin}
	if c.owner, err = unprivileged(); err != nil {
		return nil, err
	}
	if c.folder, err = os.MkdirTemp("", "pgtest-"); err != nil {
		return nil, err
	}
	if c.owner != nil {
		if err := os.Chown(c.folder, int(c.owner.Uid), int(c.owner.Gid)); err != nil {
			return nil, err
		}
	}
	initdb := c.command("initdb", "-D", c.data(), "-U", "mneme", "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w\n%s", err, out), c.Close())
	}
	if err := c.Up(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// binaries finds the newest PostgreSQL where Debian keeps them, or by the path.
func binaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	if len(found) > 0 {
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", ErrNotInstalled
	}
	return filepath.Dir(path), nil
}

// unprivileged is the user postgres where tests run as root, as whom PostgreSQL refuses to run.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotInstalled, err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func (c *Cluster) data() string { return filepath.Join(c.folder, "data") }

func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	return c.as(exec.Command(filepath.Join(c.bin, name), args...))
}

func (c *Cluster) as(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = c.folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.owner, Setpgid: true}
	return cmd
}

// Up starts the server and waits until it answers.
func (c *Cluster) Up() error {
	log, err := os.OpenFile(filepath.Join(c.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := c.as(exec.Command("/bin/sh", "-c", underShell, "sh", filepath.Join(c.bin, "postgres"), "-D", c.data(), "-k", c.folder,
		"-c", "listen_addresses=", "-c", "port="+port, "-c", "max_connections=300", "-c", "autovacuum_naptime=10s", "-c", "deadlock_timeout=50ms"))
	cmd.Stdout, cmd.Stderr = log, log
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.running = &running{cmd, input}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := c.exec(ctx, "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("PostgreSQL does not answer: %w\n%s", err, said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Crash ends the server at once, as `pg_ctl -m immediate` does: what it had not written is gone.
func (c *Cluster) Crash() error { return c.down("QUIT") }

func (c *Cluster) down(signal string) error {
	r := c.running
	if r == nil {
		return nil
	}
	c.running = nil
	_, err := io.WriteString(r.input, signal+"\n")
	_ = r.cmd.Wait() // PostgreSQL's code after a crash tells nothing
	return err
}

// Set changes a setting of the server while it runs, and waits until it counts.
func (c *Cluster) Set(ctx context.Context, name, value string) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	set := fmt.Sprintf("SET synchronous_commit = off; ALTER SYSTEM SET %s = '%s'; SELECT pg_reload_conf()", name, value)
	for _, sql := range strings.Split(set, "; ") {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	for got := value + "?"; got != value; {
		if err := conn.QueryRow(ctx, "SELECT current_setting('"+name+"')").Scan(&got); err != nil {
			return err
		}
	}
	if name != "synchronous_standby_names" {
		return nil
	}
	// Commits wait for a standby once the checkpointer has read the setting, too. It looks before each checkpoint, and the
	// first one may have begun before the signal came.
	for range 2 {
		if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
			return err
		}
	}
	return nil
}

// Keep stops the server, copies all that it holds, and starts it again. GoBack goes on with the copy, as a standby does
// that is promoted and lacks what was committed since.
func (c *Cluster) Keep() error {
	if err := c.down("INT"); err != nil {
		return err
	}
	if err := c.as(exec.Command("cp", "-a", c.data(), c.data()+".kept")).Run(); err != nil {
		return err
	}
	return c.Up()
}

// GoBack ends the server at once and promotes what Keep copied.
func (c *Cluster) GoBack(ctx context.Context) error {
	if err := c.Crash(); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(c.data()), os.Rename(c.data()+".kept", c.data())); err != nil {
		return err
	}
	if err := c.Standby(); err != nil {
		return err
	}
	return c.exec(ctx, "SELECT pg_promote()")
}

// Standby starts the server anew as a standby, which takes no writes.
func (c *Cluster) Standby() error {
	if err := c.down("INT"); err != nil {
		return err
	}
	if err := c.as(exec.Command("touch", filepath.Join(c.data(), "standby.signal"))).Run(); err != nil {
		return err
	}
	return c.Up()
}

// Close ends the server and removes all that it held.
func (c *Cluster) Close() error { return errors.Join(c.down("QUIT"), os.RemoveAll(c.folder)) }

// URL is how to reach a database.
func (c *Cluster) URL(database string) string {
	return fmt.Sprintf("postgres:///%s?host=%s&port=%s&user=mneme", url.PathEscape(database), url.QueryEscape(c.folder), port)
}

// Socket is the file that the server listens on.
func (c *Cluster) Socket() string { return filepath.Join(c.folder, ".s.PGSQL."+port) }

// Database makes an empty database and returns how to reach it.
func (c *Cluster) Database() (string, error) {
	name := fmt.Sprint("test", c.names.Add(1))
	return c.URL(name), c.exec(context.Background(), "CREATE DATABASE "+name)
}

func (c *Cluster) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// Shared is a cluster that the tests of one package share, started by the first that needs it.
type Shared struct {
	mu      sync.Mutex
	cluster *Cluster
	err     error
}

// Cluster is the shared cluster. Where PostgreSQL is not installed the test is skipped, or fails where CI is true.
func (s *Shared) Cluster(t testing.TB) *Cluster {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil && s.err == nil {
		s.cluster, s.err = Start()
	}
	if errors.Is(s.err, ErrNotInstalled) && os.Getenv("CI") != "true" {
		t.Skip(s.err)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster
}

// Database is an empty database of the test's own.
func (s *Shared) Database(t testing.TB) string {
	t.Helper()
	url, err := s.Cluster(t).Database()
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// Close ends the cluster, if any test started it. TestMain calls it.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}
