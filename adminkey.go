package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// keyFile returns the name of the file with the first key. Only the server's user can read it.
func keyFile(data string) string { return filepath.Join(data, "admin.key") }

// adminKey is the file with the admin key of tenant default. The engine returns the key only once, when it creates
// the tenant, and a crash before the file is written would lose it. So an empty file is created first: if a start
// finds it empty, an earlier start did not finish, and a new key is made.
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

// reserveKey creates the file, empty, if it does not exist. The data folder must exist.
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
	return k, k.write("")
}

// release removes the file that reserveKey created, after a start that failed before the engine made a key. Otherwise
// the next start would make a second key if another server on the same database has created the tenant meanwhile. If
// the outcome is unknown, the empty file remains.
func (k adminKey) release(err error) error {
	if known, ok := errors.AsType[*fault.Error](err); k.was != absent || ok && known.Code == "outcome_unknown" {
		return err
	}
	return errors.Join(err, os.Remove(k.name))
}

// keep writes the key that the engine made with the tenant, or a new key if an earlier start lost it, and returns it.
// It returns an empty key if an earlier start has already shown the key.
func (k adminKey) keep(ctx context.Context, e *engine.Engine, made string) (string, error) {
	switch {
	case made != "":
	case k.was == absent:
		return "", os.Remove(k.name)
	case k.was == full:
		return "", nil
	default:
		created, err := e.Tenants.CreateKey(ctx, ident.Caller{Tenant: ident.DefaultTenant,
			Role: ident.RoleTenantAdmin},
			ident.Once{}, tenant.KeySpec{Name: "admin", Role: ident.RoleTenantAdmin.String(),
				PreferredName: tenant.DefaultSpeaker})
		if err != nil {
			return "", fmt.Errorf("making an admin key: %w", err)
		}
		made = created.Key
	}
	return made, k.write(made + "\n")
}

// write replaces the content of the file.
func (k adminKey) write(content string) error {
	err := replaceFile(k.name, func(f *os.File) error {
		_, err := f.WriteString(content)
		return err
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", k.name, err)
	}
	return nil
}
