package badgerstore

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// identityName is the file in the data folder that identifies the store. It is written once both databases have
	// been opened for the first time.
	identityName = "STORE"
	// beginningName is a file in the data folder from before the databases are created until identityName exists.
	// Nothing was acknowledged before that.
	beginningName = "STORE.beginning"
	// databaseName is the file in each database's folder with the id of its store.
	databaseName = "ID"
)

// identity is the content of STORE.
type identity struct {
	Layout int       `json:"layout"`
	ID     string    `json:"id"`
	Made   time.Time `json:"made"`
}

// errIdentity says that STORE is damaged.
var errIdentity = errors.New("STORE is damaged")

// readIdentity reads a folder's STORE. It returns nil if there is none.
func readIdentity(dir string) (*identity, error) {
	raw, err := os.ReadFile(filepath.Join(dir, identityName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var i identity
	if json.Unmarshal(raw, &i) != nil || i.ID == "" {
		return nil, errIdentity
	}
	return &i, nil
}

// checkIdentity refuses a folder of another layout, and one whose databases belong to different stores. It returns
// nil for a folder without a store, or with one whose creation was interrupted.
func checkIdentity(dir string) (*identity, error) {
	i, err := readIdentity(dir)
	if err != nil {
		return nil, refuse(identityName, "%v", err)
	}
	if i == nil {
		if exists(filepath.Join(dir, beginningName)) || !Exists(dir) {
			return nil, nil
		}
		i = &identity{Layout: 0}
	}
	if i.Layout != store.Layout {
		return nil, &store.LayoutError{What: "the data folder", Layout: i.Layout}
	}
	for _, part := range databases {
		raw, err := os.ReadFile(filepath.Join(dir, part, databaseName))
		if errors.Is(err, fs.ErrNotExist) && !exists(filepath.Join(dir, part)) {
			continue // reported by the checks of the database
		}
		if err != nil {
			return nil, refuse(filepath.Join(part, databaseName), "it cannot be read: %v", err)
		}
		if string(raw) != i.ID+"\n" {
			return nil, refuse(filepath.Join(part, databaseName), "the database belongs to another store")
		}
	}
	return i, nil
}

// identify creates the identity of a folder whose databases have been opened for the first time.
func identify(dir string, now time.Time) (*identity, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
	i := &identity{Layout: store.Layout, ID: hex.EncodeToString(id[:]), Made: now.UTC()}
	raw, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	for _, part := range databases {
		if err := replace(filepath.Join(dir, part, databaseName), []byte(i.ID+"\n")); err != nil {
			return nil, err
		}
	}
	if err := replace(filepath.Join(dir, identityName), append(raw, '\n')); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(dir, beginningName)); err != nil {
		return nil, err
	}
	return i, syncFolder(dir)
}

// begin records that a folder's databases are about to be created.
func begin(dir string) error { return replace(filepath.Join(dir, beginningName), nil) }

// databases lists the folders of the two databases.
var databases = [...]string{"main", "loose"}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// Exists reports whether a folder holds a store, or what is left of one.
func Exists(dir string) bool {
	return copyable(filepath.Join(dir, identityName)) || copyable(filepath.Join(dir, "main", badger.ManifestFilename))
}

// checkOwner refuses a folder whose files belong to another user, because that user's server could not open the files
// that this process would write.
func checkOwner(dir string) error {
	for _, name := range [...]string{identityName, "main", "loose"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if uid, ok := ownerOf(info); ok && uid != os.Geteuid() {
			return fmt.Errorf("%s is owned by user %d, and this process runs as user %d: run it as user %d",
				filepath.Join(dir, name), uid, os.Geteuid(), uid)
		}
	}
	return nil
}
