package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/backup"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
	"github.com/seed-0906e6bc/mneme/server"
)

// backupStall is the time without data from the server after which a backup is aborted.
const backupStall = 2 * time.Minute

// backupOf returns the function with which a server writes backups of its store.
func backupOf(s store.Store, log *slog.Logger) server.BackupFunc {
	return func(ctx context.Context, w io.Writer) error {
		sum, err := backup.Write(ctx, w, s, backup.Created(time.Now(), version()))
		if err == nil {
			log.Info("backup written", "records", sum.Records, "bytes", sum.Bytes, "damaged", sum.Damaged)
		}
		return err
	}
}

// backUp writes a backup of a running server, or of a folder that no server has open, to a file.
func backUp(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) error {
	out, url, rootKey, data := "", "http://"+defaultListen, "", ""
	_, err := readOptions(flag.NewFlagSet("backup", flag.ContinueOnError), []option{
		{"out", "", "", &out, "`FILE` to write, readable to its owner alone"},
		{"url", "MNEME_URL", "", &url, "`URL` of the running server"},
		{"root-key", "MNEME_ROOT_KEY", "", &rootKey, "the operator's `KEY`"},
		{"data", "", "", &data, "`FOLDER` to read instead, while no server runs on it"},
	}, args, env, stderr)
	if err != nil {
		return err
	}
	if out == "" {
		return errors.New("say with --out which file to write")
	}
	source := func(w io.Writer) error { return backUpServer(ctx, w, url, rootKey) }
	if data != "" {
		source = func(w io.Writer) error { return backUpFolder(ctx, w, data) }
	} else if rootKey == "" {
		return errors.New("a running server gives a backup to its operator: say the key with --root-key or " +
			"MNEME_ROOT_KEY")
	}
	sum, err := keepBackup(out, source)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %s\n", out, describeBackup(sum))
	if sum.Damaged > 0 {
		return fmt.Errorf("%d damaged records could not be copied and are not in the backup; `mneme verify` names them",
			sum.Damaged)
	}
	return nil
}

func describeBackup(s backup.Summary) string {
	return fmt.Sprintf("%d records, %d bytes, as of %s", s.Records, s.Bytes, s.CreatedAt.Format(time.RFC3339))
}

// keepBackup lets source write a file, then reads and checks it, so that only a complete backup gets the name.
func keepBackup(name string, source func(io.Writer) error) (sum backup.Summary, err error) {
	err = replaceFile(name, func(f *os.File) error {
		if err := source(f); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		sum, err = backup.Read(f, nil)
		return err
	})
	return sum, err
}

// backUpFolder writes a backup of a copy of the folder, so that the folder does not change.
func backUpFolder(ctx context.Context, w io.Writer, data string) (err error) {
	db, err := openCopy(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = backup.Write(ctx, w, store.Seal(db), backup.Created(time.Now(), version()))
	return err
}

// openCopy opens a copy of a data folder for reading.
func openCopy(data string) (*badgerstore.Copy, error) {
	db, err := badgerstore.OpenCopy(badgerstore.Options{Dir: data})
	switch {
	case errors.Is(err, badgerstore.ErrLocked):
		return nil, fmt.Errorf("%s: %w: stop the server first (or back it up over HTTP: leave --data out)", data,
			badgerstore.ErrLocked)
	case err != nil:
		return nil, fmt.Errorf("opening %s: %w", data, err)
	}
	return db, nil
}

// backUpServer downloads a backup from a running server.
func backUpServer(ctx context.Context, w io.Writer, url, rootKey string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(backupStall, func() { cancel(fmt.Errorf("the server sent nothing for %s", backupStall)) })
	defer stalled.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/api/v1/admin/backup",
		nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+rootKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking the server: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return refusedByServer(res)
	}
	if _, err = io.Copy(w, movingReader{res.Body, stalled}); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("%w (%w)", backup.ErrCut, err)
	}
	return nil
}

// movingReader resets a timer with every read that returns bytes.
type movingReader struct {
	r     io.Reader
	timer *time.Timer
}

func (m movingReader) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if n > 0 {
		m.timer.Reset(backupStall)
	}
	return n, err
}

// refusedByServer returns the error for a server's refusal.
func refusedByServer(res *http.Response) error {
	var problem struct{ Detail string }
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err == nil && json.Unmarshal(body, &problem) == nil && problem.Detail != "" {
		return fmt.Errorf("the server answers %d: %s", res.StatusCode, problem.Detail)
	}
	return fmt.Errorf("the server answers %s", res.Status)
}
