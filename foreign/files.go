package foreign

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/klauspost/compress/zstd"
)

// File is a file to read.
type File struct {
	io.ReaderAt
	Name    string // with slashes, relative to the folder that was named
	Size    int64
	ModTime time.Time
	Named   bool // on the command line, not found in a folder
}

// leaf is a file without archives or compression around it.
type leaf struct {
	File
	format   string
	problem  string
	oneValue bool      // a text that is one JSON value
	first    time.Time // of the first record, if files of the format depend on each other
	wal      *leaf     // the log of a SQLite database
	beside   map[string]*leaf
}

// Limits of archives and compressed files. One that exceeds them is refused as a bomb.
const (
	maxEntries   = 200_000
	maxDirectory = 64 << 20 // bytes of the directory of a zip
	maxUnpacked  = 16 << 30 // bytes of one run
	freeRatio    = 64 << 20 // bytes that may be unpacked whatever the ratio
	maxRatio     = 250      // of unpacked to packed bytes above that
)

// fileSet is the files of one run. What is unpacked is in temporary files.
type fileSet struct {
	leaves   []*leaf
	options  Options
	temp     *os.File // nil while nothing is unpacked
	unpacked int64    // bytes in temp
	written  int64    // bytes that were ever in temp, with those of refused files
	entries  int
}

func (s *fileSet) close() {
	if s.temp != nil {
		_ = s.temp.Close()
		_ = os.Remove(s.temp.Name())
	}
}

// open adds a file, or what it contains.
func (s *fileSet) open(f File) error { return s.expand(f, 0) }

// recognise finds out what each file is.
func (s *fileSet) recognise() {
	beside := map[string]*leaf{}
	for _, l := range s.leaves {
		beside[l.Name] = l
	}
	for _, l := range s.leaves {
		l.beside = beside
		l.wal = beside[l.Name+"-wal"]
		if l.problem == "" {
			l.detect()
		}
	}
	for _, l := range s.leaves {
		if l.wal != nil {
			l.wal.problem = ""
		}
	}
}

// Recognise reports whether a file may be one to import, or belongs to one: then problem is "". It opens no archives.
func Recognise(f File) (problem string) {
	l := &leaf{File: f}
	head := l.head(512)
	name := strings.ToLower(f.Name)
	for _, magic := range [...][]byte{[]byte("PK\x03\x04"), []byte("SQLite format 3\x00"), magicGzip, magicZstd, {0xFF, 0xFE}, {0xFE, 0xFF}} {
		if bytes.HasPrefix(head, magic) {
			return ""
		}
	}
	if strings.HasSuffix(name, "-wal") || strings.HasSuffix(name, ".meta.json") || len(head) > 262 && string(head[257:262]) == "ustar" ||
		imageType(l) != "" && f.Size <= maxAsset {
		return ""
	}
	l.detect()
	return l.problem
}

// expand adds a file, or what it contains. Archives may be in an archive once.
func (s *fileSet) expand(f File, depth int) error {
	l := &leaf{File: f}
	head := l.head(512)
	var err error
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		if depth > 1 {
			err = unreadablef("an archive in an archive in an archive is not opened")
			break
		}
		err = s.unzip(f, depth)
	case len(head) > 262 && string(head[257:262]) == "ustar":
		err = s.untar(f, depth)
	case depth > 3 && (bytes.HasPrefix(head, magicGzip) || bytes.HasPrefix(head, magicZstd)):
		err = unreadablef("refused: compressed more than three times")
	case bytes.HasPrefix(head, magicGzip):
		var in *gzip.Reader
		if in, err = gzip.NewReader(io.NewSectionReader(f, 0, f.Size)); err == nil {
			return s.unpack(f, in, depth+1)
		}
		err = unreadablef("unreadable gzip: %v", err)
	case bytes.HasPrefix(head, magicZstd):
		var in *zstd.Decoder
		in, err = zstd.NewReader(io.NewSectionReader(f, 0, f.Size), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxMemory(256<<20), zstd.WithDecoderMaxWindow(128<<20))
		if err == nil {
			defer in.Close()
			return s.unpack(f, in, depth+1)
		}
	default:
		return s.add(l)
	}
	if bad, ok := errors.AsType[*unreadable](err); ok {
		l.problem = bad.Error()
		s.leaves = append(s.leaves, l)
		return nil
	}
	return err
}

var magicGzip, magicZstd = []byte{0x1F, 0x8B}, []byte{0x28, 0xB5, 0x2F, 0xFD}

// add adds a file that is no archive: as UTF-8, without a byte order mark, and with its format.
func (s *fileSet) add(l *leaf) error {
	head := l.head(4)
	switch {
	case bytes.HasPrefix(head, []byte("\xEF\xBB\xBF")):
		l.ReaderAt, l.Size = io.NewSectionReader(l.ReaderAt, 3, l.Size-3), l.Size-3
	case len(head) >= 2 && (head[0] == 0xFF && head[1] == 0xFE || head[0] == 0xFE && head[1] == 0xFF):
		if err := s.fromUTF16(l, head[0] == 0xFF); err != nil {
			return err
		}
	}
	s.leaves = append(s.leaves, l)
	return nil
}

// fromUTF16 replaces a text by its UTF-8.
func (s *fileSet) fromUTF16(l *leaf, little bool) error {
	raw, err := l.all()
	if bad, ok := errors.AsType[*unreadable](err); ok {
		l.problem = bad.Error()
		return nil
	} else if err != nil {
		return err
	}
	units := make([]uint16, 0, len(raw)/2)
	for i := 2; i+1 < len(raw); i += 2 {
		u := uint16(raw[i])<<8 | uint16(raw[i+1])
		if little {
			u = u<<8 | u>>8
		}
		units = append(units, u)
	}
	text := []byte(string(utf16.Decode(units)))
	l.ReaderAt, l.Size = bytes.NewReader(text), int64(len(text))
	return nil
}

func (s *fileSet) unzip(f File, depth int) error {
	in := &limited{ReaderAt: f, left: maxDirectory}
	z, err := zip.NewReader(in, f.Size)
	in.done = true
	if err != nil {
		return unreadablef("unreadable zip: %v", err)
	}
	for _, e := range z.File {
		if s.entries++; s.entries > maxEntries {
			return unreadablef("refused: more than %d files in archives", maxEntries)
		}
		if e.FileInfo().IsDir() || strings.HasPrefix(e.Name, "__MACOSX/") || !e.Mode().IsRegular() {
			continue
		}
		inner := File{Name: f.Name + "/" + cleanName(e.Name), ModTime: e.Modified,
			Size: int64(min(e.CompressedSize64, uint64(f.Size)))}
		data, err := e.Open()
		if err != nil {
			s.leaves = append(s.leaves, &leaf{File: inner, problem: "unreadable: " + err.Error()})
			continue
		}
		err = s.unpack(inner, data, depth+1)
		_ = data.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// limited reads the directory of a zip, of which nothing is checked before all of it is in memory, and then its files.
type limited struct {
	io.ReaderAt
	left int
	done bool // the directory was read
}

func (l *limited) ReadAt(p []byte, at int64) (int, error) {
	if l.done {
		return l.ReaderAt.ReadAt(p, at)
	}
	if l.left -= len(p); l.left < 0 {
		return 0, fmt.Errorf("its directory takes more than %d bytes", maxDirectory)
	}
	return l.ReaderAt.ReadAt(p, at)
}

// untar adds the files of a tar archive, which lie in it as they are. It is how several files are sent in one request, so
// it does not count as an archive around them.
func (s *fileSet) untar(f File, depth int) error {
	at := &counting{in: io.NewSectionReader(f, 0, f.Size)}
	t := tar.NewReader(at)
	for {
		e, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return unreadablef("unreadable tar: %v", err)
		}
		if s.entries++; s.entries > maxEntries {
			return unreadablef("refused: more than %d files in archives", maxEntries)
		}
		if e.Typeflag != tar.TypeReg || e.PAXRecords["GNU.sparse.major"] != "" {
			continue
		}
		if at.n+e.Size > f.Size {
			return unreadablef("unreadable tar: it ends early")
		}
		inner := File{Name: cleanName(e.Name), ModTime: e.ModTime, Size: e.Size, ReaderAt: io.NewSectionReader(f, at.n, e.Size),
			Named: e.PAXRecords[paxNamed] != ""}
		if err := s.expand(inner, depth); err != nil {
			return err
		}
	}
}

// paxNamed is a record of files in a tar archive that were named on the command line.
const paxNamed = "MNEME.named"

// TarHeader returns the header of a file in an archive of several files to import.
func TarHeader(f *File) *tar.Header {
	h := &tar.Header{Name: f.Name, Size: f.Size, ModTime: f.ModTime, Mode: 0o600, Format: tar.FormatPAX}
	if f.Named {
		h.PAXRecords = map[string]string{paxNamed: "1"}
	}
	return h
}

// counting counts the bytes that were read, so that the place of a file in an archive is known.
type counting struct {
	in *io.SectionReader
	n  int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counting) Seek(to int64, whence int) (int64, error) {
	n, err := c.in.Seek(to, whence)
	if err == nil {
		c.n = n
	}
	return n, err
}

// unpack adds what a compressed file holds. f.Size is the number of packed bytes.
func (s *fileSet) unpack(f File, in io.Reader, depth int) error {
	if s.temp == nil {
		temp, err := os.CreateTemp(s.options.TempDir, "mneme-import-*")
		if err != nil {
			return fmt.Errorf("unpacking %s: %w", f.Name, err)
		}
		s.temp = temp
		_ = os.Remove(temp.Name()) // if an open file can be removed, it disappears even after a crash
	}
	if s.options.Room != nil {
		in = &roomy{in, s.options.Room}
	}
	allowed := max(freeRatio, maxRatio*f.Size)
	at := s.unpacked
	n, err := io.Copy(io.NewOffsetWriter(s.temp, at), io.LimitReader(in, min(allowed, maxUnpacked-s.written)+1))
	s.written += n
	problem := ""
	switch pathErr, ok := errors.AsType[*os.PathError](err); {
	case ok:
		return pathErr
	case errors.Is(err, errNoRoom):
		return err
	case n > allowed || s.written > maxUnpacked:
		problem = fmt.Sprintf("refused: it unpacks to more than %d bytes", n-1)
	case err != nil:
		problem = "unreadable: " + err.Error()
	}
	if problem != "" {
		s.leaves = append(s.leaves, &leaf{File: f, problem: problem})
		return s.temp.Truncate(at)
	}
	s.unpacked += n
	f.ReaderAt, f.Size = io.NewSectionReader(s.temp, at, n), n
	return s.expand(f, depth)
}

var errNoRoom = errors.New("there is no room to unpack the files")

// roomy reads as long as there is room.
type roomy struct {
	in   io.Reader
	room func() error
}

func (r *roomy) Read(p []byte) (int, error) {
	if err := r.room(); err != nil {
		return 0, fmt.Errorf("%w: %w", errNoRoom, err)
	}
	return r.in.Read(p)
}

// cleanName returns the name of an entry of an archive as a path below it.
func cleanName(name string) string {
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, `\`, "/")), "/")
}
