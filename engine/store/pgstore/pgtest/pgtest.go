// Package pgtest runs a private PostgreSQL for tests: a cluster in a temporary folder, reached by a Unix socket, with
// the default durability.
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

// ErrNotInstalled is returned by Start if PostgreSQL is not installed.
var ErrNotInstalled = errors.New("PostgreSQL is not installed (Debian: apt-get install postgresql)")

// port only names the socket's file: the server does not listen on the network.
const port = "5432"

// patience limits the waits for the database.
const patience = time.Minute

// Cluster is a running PostgreSQL.
type Cluster struct {
	folder string
	bin    string
	owner  *syscall.Credential // nil: the user who runs the tests
	names  atomic.Int64

	running *running
}

// running is one run of the server, under a shell that ends it when the shell's input ends, so that a killed test
// leaves no database running.
type running struct {
	cmd   *exec.Cmd
	input io.WriteCloser
}

const underShell = `"$@" & child=$!; read how; kill -"${how:-QUIT}" $child 2>/dev/null; wait $child`

// Start creates and starts a cluster.
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

// binaries returns the folder of the newest PostgreSQL in Debian's location, or else of the one in PATH.
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

// unprivileged returns the user postgres if tests run as root, because PostgreSQL refuses to run as root.
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

// Up starts the server and waits until it responds.
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

// Processes returns the server's processes, and the processor time of those that have ended (Linux).
func (c *Cluster) Processes() (pids []int, ended time.Duration, err error) {
	file, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil {
		return nil, 0, err
	}
	postmaster, _, _ := strings.Cut(string(file), "\n")
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, 0, err
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		name := filepath.Base(filepath.Dir(path))
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after) // from the third on, see proc(5)
		if name == postmaster {
			for _, field := range fields[13:15] { // cutime and cstime, in hundredths of a second
				n, _ := strconv.Atoi(field)
				ended += time.Duration(n) * time.Second / 100
			}
		}
		pid, _ := strconv.Atoi(name)
		if name == postmaster || fields[1] == postmaster {
			pids = append(pids, pid)
		}
	}
	return pids, ended, nil
}

// Crash ends the server at once, like `pg_ctl -m immediate`: data that it had not written is lost.
func (c *Cluster) Crash() error { return c.down("QUIT") }

func (c *Cluster) down(signal string) error {
	r := c.running
	if r == nil {
		return nil
	}
	c.running = nil
	_, err := io.WriteString(r.input, signal+"\n")
	_ = r.cmd.Wait() // PostgreSQL's exit code after a crash has no meaning
	return err
}

// Set changes a setting of the running server, and waits until it takes effect.
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
	// Commits wait for a standby only once the checkpointer has read the setting, too. It reads it before each
	// checkpoint, and the first one may have started before the signal came.
	for range 2 {
		if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
			return err
		}
	}
	return nil
}

// Keep stops the server, copies all its data, and starts it again. GoBack continues with the copy, like a promoted
// standby that lacks later commits.
func (c *Cluster) Keep() error {
	if err := c.down("INT"); err != nil {
		return err
	}
	if err := c.as(exec.Command("cp", "-a", c.data(), c.data()+".kept")).Run(); err != nil {
		return err
	}
	return c.Up()
}

// GoBack ends the server at once and promotes the copy that Keep made.
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

// Standby restarts the server as a standby, which accepts no writes.
func (c *Cluster) Standby() error {
	if err := c.down("INT"); err != nil {
		return err
	}
	if err := c.as(exec.Command("touch", filepath.Join(c.data(), "standby.signal"))).Run(); err != nil {
		return err
	}
	return c.Up()
}

// Close ends the server and removes all its data.
func (c *Cluster) Close() error { return errors.Join(c.down("QUIT"), os.RemoveAll(c.folder)) }

// URL returns the connection string of a database.
func (c *Cluster) URL(database string) string {
	return fmt.Sprintf("postgres:///%s?host=%s&port=%s&user=mneme", url.PathEscape(database), url.QueryEscape(c.folder), port)
}

// Socket returns the file that the server listens on.
func (c *Cluster) Socket() string { return filepath.Join(c.folder, ".s.PGSQL."+port) }

// Database creates an empty database and returns its connection string.
func (c *Cluster) Database() (string, error) {
	name := fmt.Sprint("test", c.names.Add(1))
	return c.URL(name), c.exec(context.Background(), "CREATE DATABASE "+name)
}

// Relative creates an empty database that says that it is not PostgreSQL itself, but a database that speaks its
// protocol. Its function version() is found before the system's.
func (c *Cluster) Relative() (string, error) {
	url, err := c.Database()
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	for _, sql := range []string{"CREATE SCHEMA relative", "CREATE FUNCTION relative.version() RETURNS text " +
		"IMMUTABLE LANGUAGE sql AS $$SELECT 'PostgreSQL 15.2-YB-2.25.0.0-b0'$$"} {
		if err := execAt(ctx, url, sql); err != nil {
			return "", err
		}
	}
	conn, err := pgx.ParseConfig(url)
	if err != nil {
		return "", err
	}
	return url, c.exec(ctx, "ALTER DATABASE "+conn.Database+" SET search_path = public, relative, pg_catalog")
}

func (c *Cluster) exec(ctx context.Context, sql string) error {
	return execAt(ctx, c.URL("postgres"), sql)
}

func execAt(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// Shared is a cluster that the tests of one package share. The first test that needs it starts it.
type Shared struct {
	mu      sync.Mutex
	cluster *Cluster
	err     error
}

// Cluster returns the shared cluster. If PostgreSQL is not installed, it skips the test, or fails it if CI is true.
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

// Database returns the connection string of a new, empty database.
func (s *Shared) Database(t testing.TB) string {
	t.Helper()
	return made(t, s.Cluster(t).Database)
}

// Relative returns the connection string of a new, empty database that says that it is not PostgreSQL itself.
func (s *Shared) Relative(t testing.TB) string {
	t.Helper()
	return made(t, s.Cluster(t).Relative)
}

func made(t testing.TB, make func() (string, error)) string {
	t.Helper()
	url, err := make()
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// Close ends the cluster if any test started it. TestMain calls it.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}
