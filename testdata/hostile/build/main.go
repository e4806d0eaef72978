// Command build writes the hostile modules that are committed: build FOLDER.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/seed-0906e6bc/mneme/testdata/hostile"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: build FOLDER")
	}
	if err := build(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// build replaces the contents of the folder by the modules built from the source.
func build(folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, a := range hostile.Attacks() {
		if a.Large {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, a.Name+".wasm"), a.Build(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
