package main

import (
	"errors"
	"os"
	"path/filepath"
)

// replaceFile replaces the content of a file with what fill writes. It writes and syncs a temporary file in the same
// folder, readable only by its owner, and then renames it. If anything fails, the old file is unchanged.
func replaceFile(name string, fill func(f *os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // with mode 0600
	if err != nil {
		return err
	}
	if err = fill(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(filepath.Dir(name))
}

// syncFolder makes changes to the names in a folder durable.
func syncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
