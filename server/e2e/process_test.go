package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store/pgstore/pgtest"
)

// patience is the maximum wait for the program. It is not a measurement.
const patience = 60 * time.Second

// program is the built binary and the server that most tests share.
type program struct {
	build  func() (string, error)
	shared func() (*process, error)
	folder string
	names  atomic.Int64
}

// unique returns a name that no other test of this run uses.
func (p *program) unique(prefix string) string { return fmt.Sprintf("%s-%d", prefix, p.names.Add(1)) }

var mneme = newProgram()

func newProgram() *program {
	p := &program{}
	p.build = sync.OnceValues(func() (string, error) {
		folder, err := os.MkdirTemp("", "mneme-e2e-")
		if err != nil {
			return "", err
		}
		p.folder = folder
		if err := lookAtSources(); err != nil {
			return "", err
		}
		binary := filepath.Join(folder, "mneme")
		cmd := exec.Command("go", "build", "-o", binary, "../..")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build: %w\n%s", err, out)
		}
		return binary, nil
	})
	p.shared = sync.OnceValues(func() (*process, error) {
		binary, err := p.build()
		if err != nil {
			return nil, err
		}
		return launch(binary, filepath.Join(p.folder, "shared"))
	})
	return p
}

// lookAtSources reads every file that the program is built from, so that `go test` knows that its results depend on
// them and does not reuse cached ones.
func lookAtSources() error {
	return filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			switch filepath.Ext(path) {
			case ".go", ".wasm", ".yaml", ".mod", ".sum":
				_, err = os.Stat(path)
			}
		}
		return err
	})
}

// close stops what was started and removes what was built. After a failure it prints the server's last output.
func (p *program) close(failed bool) {
	if p.folder == "" {
		return
	}
	if s, err := p.shared(); err == nil {
		s.kill()
		if failed {
			fmt.Fprintf(os.Stderr, "the shared server's last lines:\n%s\n", s.log)
		}
	}
	os.RemoveAll(p.folder)
}

func TestMain(m *testing.M) {
	if task := os.Getenv(neighbourTask); task != "" {
		if err := beNeighbour(task); err != nil {
			panic(err)
		}
		return
	}
	code := m.Run()
	mneme.close(code != 0)
	stores.close()
	if err := postgresql.Close(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// process is one running server.
type process struct {
	url  string
	data string
	key  string // the admin key of tenant default
	cmd  *exec.Cmd
	gone chan struct{}
	log  *tail
}

// anonymous returns the server's anonymous memory, which no file backs, in KiB.
func (p *process) anonymous(t testing.TB) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells anonymous memory from other")
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("no RssAnon in %s", status)
	}
	return kib
}

// launch starts the program on a free port and waits until it accepts requests.
func launch(binary, data string, args ...string) (*process, error) {
	return launchWith(binary, data, nil, args...)
}

// launchWith is launch with more environment variables.
func launchWith(binary, data string, variables []string, args ...string) (*process, error) {
	store, err := stores.of(data)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, append([]string{"serve", "--listen", "127.0.0.1:0", "--data", data}, args...)...)
	// Failed requests are logged, so that they are among the last lines.
	cmd.Env = append(append(environment(), "MNEME_ROOT_KEY="+rootKey, "MNEME_STORE="+store, "MNEME_LOG_SAMPLE=0"),
		variables...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{data: data, cmd: cmd, gone: make(chan struct{}), log: &tail{}}
	listening := make(chan string, 1)
	go func() {
		defer close(p.gone)
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.log.add(lines.Text())
			if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
				select {
				case listening <- strings.TrimSpace(url):
				default:
				}
			}
		}
		cmd.Wait()
	}()
	select {
	case p.url = <-listening:
	case <-p.gone:
		return nil, fmt.Errorf("the server ended before it listened:\n%s", p.log)
	case <-time.After(patience):
		p.kill()
		return nil, fmt.Errorf("the server did not listen within %v:\n%s", patience, p.log)
	}
	key, err := os.ReadFile(filepath.Join(data, "admin.key"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a restored folder has none
		p.kill()
		return nil, err
	}
	p.key = strings.TrimSpace(string(key))
	return p, nil
}

// databases gives each data folder its own database if the suite runs on PostgreSQL, and the same one at every start on
// that folder.
type databases struct {
	start func() (*pgtest.Cluster, error) // nil if the suite runs on the embedded store
	urls  sync.Map                        // of func() (string, error), by data folder
}

// stores is chosen by MNEME_E2E_STORE, which is empty or `postgres`.
var stores = newDatabases(os.Getenv("MNEME_E2E_STORE"))

func newDatabases(store string) *databases {
	switch store {
	case "":
		return &databases{}
	case "postgres":
		return &databases{start: sync.OnceValues(pgtest.Start)}
	}
	panic("MNEME_E2E_STORE must be empty or postgres, not " + store)
}

// of returns the URL of a data folder's store, or "" for the embedded one.
func (d *databases) of(data string) (string, error) {
	if d.start == nil {
		return "", nil
	}
	data, err := filepath.Abs(data)
	if err != nil {
		return "", err
	}
	cluster, err := d.start()
	if err != nil {
		return "", err
	}
	url, _ := d.urls.LoadOrStore(data, sync.OnceValues(cluster.Database))
	return url.(func() (string, error))()
}

// where returns the flags for the store of a server that was started on a data folder.
func (d *databases) where(data string) []string {
	if url, err := d.of(data); err == nil && url != "" {
		return []string{"--store", url}
	}
	return []string{"--data", data}
}

func (d *databases) close() {
	if d.start == nil {
		return
	}
	if cluster, err := d.start(); err == nil {
		cluster.Close()
	}
}

// rootKey is the operator's key of every server the tests start.
const rootKey = "root-key-of-the-acceptance-tests-0123456789"

// environment returns the environment without variables that configure the server.
func environment() []string {
	var out []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "MNEME_") && !strings.HasPrefix(entry, "OPENAI_") &&
			!strings.HasPrefix(entry, "ANTHROPIC_") && !strings.HasPrefix(entry, "AGENTS_") {
			out = append(out, entry)
		}
	}
	return out
}

// kill ends the server as a crash would.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.gone
}

// stop asks the server to end and waits for it.
func (p *process) stop(t testing.TB) {
	t.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.gone:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the server ended with code %d:\n%s", code, p.log)
		}
	case <-time.After(patience):
		p.kill()
		t.Errorf("the server did not stop:\n%s", p.log)
	}
}

// start runs a new server on a data folder and kills it when the test ends.
func start(t testing.TB, data string, args ...string) *process {
	t.Helper()
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := launch(binary, data, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the server's last lines:\n%s", p.log)
		}
	})
	return p
}

// embedded is start with the embedded store, whichever store the suite runs on, for tests that use the data folder
// itself.
func embedded(t testing.TB, data string, args ...string) *process {
	t.Helper()
	return start(t, data, append(args, "--store", "")...)
}

// shared returns the admin's client of the server that tests share. Each test uses its own sessions or projects.
func shared(t testing.TB) client {
	t.Helper()
	p, err := mneme.shared()
	if err != nil {
		t.Fatal(err)
	}
	return p.client(t)
}

func (p *process) client(t testing.TB) client {
	return client{t: t, url: p.url, key: p.key, log: p.log,
		http: &http.Client{Transport: transport, Timeout: patience}}
}

// transport keeps enough connections open for parallel tests.
var transport = &http.Transport{MaxIdleConnsPerHost: 64}

// tail keeps the last lines that a process wrote, or the first lines of its crash.
type tail struct {
	mu      sync.Mutex
	lines   []string
	crashed bool
}

func (l *tail) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sign := range []string{"panic:", "fatal error:", "SIG"} {
		l.crashed = l.crashed || strings.HasPrefix(line, sign)
	}
	const most = 60
	if l.crashed && len(l.lines) >= 2*most {
		return
	}
	if l.lines = append(l.lines, clip(line, 2000)); !l.crashed && len(l.lines) > most {
		l.lines = l.lines[1:]
	}
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
