package records

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

var write = flag.Bool("write", false, "write docs/STORAGE.md instead of comparing it")

//go:generate go test -run TestStorageDocument -write

// TestStorageDocument compares docs/STORAGE.md with the table of kinds.
func TestStorageDocument(t *testing.T) {
	const path = "../../docs/STORAGE.md"
	want := storageDocument()
	if *write {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is not what the kinds say (%v): run go generate ./engine/records", path, err)
	}
}

// storageHead is the beginning of docs/STORAGE.md. An apostrophe represents a backtick, which a Go raw string cannot
// contain.
const storageHead = `<!-- go generate ./engine/records writes this file from engine/records/kinds.go. -->
# What is stored

This page lists every kind of record that Mneme stores and the layout of its keys. Use it to understand what
'mneme verify' reports.

A key begins with a letter and a zero byte. Loose records, which are written without waiting for the disk, begin with
a 'z' and a letter instead. Then come the parts of the key:

- '<project>' is an incarnation: 8 random bytes, drawn when a project, session, board or inbox is created. If one is
  deleted and created again, the records of the old one stay invisible until they are removed.
- 'session' is a text. If another part follows, a zero byte ends it; texts contain no zero bytes.
- 'seq:8' is a number or a hash of 8 bytes. Numbers are big-endian, so that keys sort by them.
- 'time:8' is a time in milliseconds. '-time:8' counts downwards, so that the newest record comes first.

A value has at most 512 KiB, except where the list says "of any length". Such a value is split into pieces if it has
512 KiB less 64 bytes or more:

- The first piece is stored under the key itself and has 512 KiB less 64 bytes. It begins with the length of the whole
  value (4 bytes) and the first 16 bytes of its SHA-256, followed by the beginning of the value.
- The key of each further piece is four bytes 0xff (after a 'z' if the key is loose), the original key, and the number
  of the piece (2 bytes, from 1). Each of these pieces begins with the same 16 bytes of the SHA-256.

Each stored value ends with 4 bytes: the CRC-32C of the tenant, the key and the value.
`

// storageDocument returns docs/STORAGE.md for the table of kinds.
func storageDocument() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(storageHead, "'", "`"))
	for in, title := range [...]string{inTenant: "In the space of each tenant", inSystem: "In the system space",
		inBoth: "In both spaces"} {
		b.WriteString("\n## " + title + "\n| Kind | Key | What it holds |\n|---|---|---|\n")
		for _, k := range Kinds {
			if k := k.base(); k.in == space(in) {
				doc := k.doc
				if k.length != store.Plain {
					doc += "; of any length"
				}
				b.WriteString("| " + k.name + " | `" + k.form() + "` | " + doc + " |\n")
			}
		}
	}
	return b.String()
}

// form returns the layout of the kind's keys.
func (k *kind) form() string {
	form := k.prefix
	if store.IsLoose([]byte(k.prefix)) {
		form = form[:1] + " " + form[1:]
	}
	for _, p := range k.parts {
		form += " " + p.name
		if p.end != "" {
			form += " " + p.end
		}
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(form, "\x00", " ")), " ")
}
