package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// keyFile is where the first key is kept, readable to the server's user alone.
func keyFile(data string) string { return filepath.Join(data, "admin.key") }

// adminKey is the key of tenant default on its way to its file. The engine shows the key once, when it makes the
// tenant; a crash between that and the file would lose it. So an empty file is made before: a start that finds it
// empty knows that an earlier one did not get to its end, and makes another key.
type adminKey struct {
	name string
	was  fileState
}

type fileState int

const (
	absent fileState = iota
	empty
	full
)

// reserveKey makes the file, empty, where there is none. The data folder must exist.
func reserveKey(data string) (adminKey, error) {
	k := adminKey{name: keyFile(data)}
	info, err := os.Stat(k.name)
	switch {
	case err == nil && info.Size() > 0:
		k.was = full
		return k, nil
	case err == nil:
		k.was = empty
		return k, nil
	case !errors.Is(err, fs.ErrNotExist):
		return k, fmt.Errorf("looking for the admin key: %w", err)
	}
	return k, writeFile(k.name, "")
}

// release takes back the file that reserveKey made, where the start failed before the engine can have made a key: of
// several servers over one database another one may make the tenant, and this one's next start has no key to give out.
// Where the outcome is unknown the file stays, empty.
func (k adminKey) release(err error) error {
	if known, ok := errors.AsType[*fault.Error](err); k.was != absent || ok && known.Code == "outcome_unknown" {
		return err
	}
	return errors.Join(err, os.Remove(k.name))
}

// keep writes the key that the engine made with the tenant, or makes one where an earlier start lost it, and answers
// it. Where the tenant's key was given out long ago, and perhaps taken from here, the answer is empty.
func (k adminKey) keep(ctx context.Context, e *engine.Engine, made string) (string, error) {
	switch {
	case made != "":
	case k.was == absent:
		return "", os.Remove(k.name)
	case k.was == full:
		return "", nil
	default:
		created, err := e.Tenants.CreateKey(ctx, access.Caller{Tenant: ident.DefaultTenant, Role: access.RoleTenantAdmin},
			access.Once{}, tenant.KeySpec{Name: "admin", Role: access.RoleTenantAdmin.String(),
				PreferredName: tenant.DefaultSpeaker})
		if err != nil {
			return "", fmt.Errorf("making an admin key: %w", err)
		}
		made = created.Key
	}
	return made, writeFile(k.name, made+"\n")
}

// writeFile replaces a file whole, synced, readable to its owner alone.
func writeFile(name, content string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", name, err)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(filepath.Dir(name))
}

// syncFolder makes the names in a folder durable.
func syncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
