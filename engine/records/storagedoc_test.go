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

This is the list of everything that Mneme stores, with the layout of its keys: read it to make sense of a finding of
'mneme verify'.

A key begins with a letter and a zero byte. Loose records, which are written without waiting for the disk, begin with
a 'z' and a letter instead. Behind that come the parts of the key:

- '<project>' is an incarnation: 8 random bytes, new whenever a project, a session, a board or an inbox is made, so
  that what was deleted can be removed later without being seen again.
- 'session' is a text; it ends with a zero byte where anything follows it, because no text holds one.
- 'seq:8' is a number or a hash of so many bytes. Numbers are big-endian, so that keys sort by them.
- 'time:8' is a time in milliseconds; '-time:8' counts downwards, so that the newest record comes first.

A value has at most 512 KiB, except where the list says "of any length". Of those, one of 512 KiB less 64 bytes or more
is cut into pieces:

- The piece under the key itself has 512 KiB less 64 bytes. It begins with the length of the whole value (4 bytes) and
  the first 16 bytes of its SHA-256; the beginning of the value follows.
- The key of each further piece is four bytes 0xff (behind a 'z' where the value's key is loose), the value's key, and
  the number of the piece (2 bytes, from 1 on). Each of these pieces begins with the same 16 bytes.

Behind everything that is stored under a key stand 4 bytes of CRC-32C over tenant, key and value.
`

// storageDocument returns docs/STORAGE.md for the table of kinds.
func storageDocument() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(storageHead, "'", "`"))
	for in, title := range [...]string{inTenant: "In the space of a tenant", inSystem: "In the system space",
		inBoth: "In both"} {
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
