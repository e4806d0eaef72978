package foreign

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/klauspost/compress/zstd"
)

// TestEveryPrefix reads every sample cut at each of its bytes. What is left of it never stops the run.
func TestEveryPrefix(t *testing.T) {
	for _, f := range folder(t, "testdata") {
		step := max(1, f.Size/250)
		for n := int64(0); n <= f.Size; n += step {
			cut := f
			cut.Size = n
			cut.ReaderAt = io.NewSectionReader(f, 0, n)
			if _, err := Read([]File{cut}, new(memorySink), Options{TempDir: t.TempDir()}); err != nil {
				t.Fatalf("%s cut at %d: %v", f.Name, n, err)
			}
		}
	}
}

// TestOneFormat checks that no record of a sample has the shape of two formats.
func TestOneFormat(t *testing.T) {
	set := new(fileSet)
	defer set.close()
	for _, f := range folder(t, "testdata") {
		if err := set.open(f); err != nil {
			t.Fatal(err)
		}
	}
	set.recognise()
	for _, l := range set.leaves {
		if l.format == "" || bytes.HasPrefix(l.head(6), []byte("SQLite")) || l.format == markdown {
			continue
		}
		_ = l.each(func(v *value) error {
			var is []string
			for _, s := range shapes {
				if o := parseObject(v.raw); o != nil && s.is(o) {
					is = append(is, s.format)
				}
			}
			if len(is) > 1 {
				t.Errorf("%s: record %d is of %q", l.Name, v.n, is)
			}
			return nil
		})
	}
}

const oneChat = `{"messages":[{"role":"user","content":"Is the 港 open?"},{"role":"assistant","content":"Yes."}]}`

// TestWrappings reads one conversation as it is, in archives, compressed, and in other encodings.
func TestWrappings(t *testing.T) {
	zipped := func(name string, raw []byte) []byte {
		var out bytes.Buffer
		z := zip.NewWriter(&out)
		for _, n := range []string{"__MACOSX/._" + name, name} {
			w, _ := z.Create(n)
			_, _ = w.Write(raw)
		}
		_ = z.Close()
		return out.Bytes()
	}
	var gz, zs, tarred, wide bytes.Buffer
	g := gzip.NewWriter(&gz)
	_, _ = g.Write([]byte(oneChat))
	_ = g.Close()
	z, _ := zstd.NewWriter(&zs)
	_, _ = z.Write([]byte(oneChat))
	_ = z.Close()
	w := tar.NewWriter(&tarred)
	f := file(strings.Repeat("folder/", 30)+"港.jsonl", []byte(oneChat))
	_ = w.WriteHeader(TarHeader(&f))
	_, _ = w.Write([]byte(oneChat))
	_ = w.Close()
	wide.Write([]byte{0xFF, 0xFE})
	for _, u := range utf16.Encode([]rune(oneChat)) {
		wide.Write([]byte{byte(u), byte(u >> 8)})
	}
	for name, raw := range map[string][]byte{
		"plain": []byte(oneChat), "BOM": []byte("\xEF\xBB\xBF" + oneChat), "UTF-16": wide.Bytes(), "array": []byte("[" + oneChat + "]"),
		"spread": []byte(strings.ReplaceAll(oneChat, ",", ",\n  ")), "gzip": gz.Bytes(), "zstd": zs.Bytes(), "tar": tarred.Bytes(),
		"zip": zipped("a.json", []byte(oneChat)), "zip in zip": zipped("a.zip", zipped("a.json", []byte(oneChat))),
		"gzip in zip": zipped("a.gz", gz.Bytes()),
	} {
		sink, report := read(t, file(name, raw))
		if len(sink.conversations) != 1 || report.Total.Messages != 2 || !bytes.Contains(sink.conversations[0].Turns[0].Messages[0].JSON, []byte("港")) {
			t.Errorf("%s: %+v", name, report)
		}
	}
	if _, report := read(t, file("3", zipped("a.zip", zipped("a.zip", zipped("a.json", []byte(oneChat)))))); report.Total.Conversations != 0 ||
		!strings.Contains(report.Files[0].Problem, "archive") {
		t.Errorf("three archives: %+v", report)
	}
}

// TestBombs reads compressed files that unpack to far more than they are.
func TestBombs(t *testing.T) {
	var gz bytes.Buffer
	g, _ := gzip.NewWriterLevel(&gz, gzip.BestCompression)
	zeros := make([]byte, 1<<20)
	for range freeRatio>>20 + 8 {
		_, _ = g.Write(zeros)
	}
	_ = g.Close()
	nested := []byte(oneChat)
	for range 8 {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write(nested)
		_ = w.Close()
		nested = out.Bytes()
	}
	_, report := read(t, file("bomb.gz", gz.Bytes()), file("nested.gz", nested), file("good.json", []byte(oneChat)))
	for _, f := range report.Files {
		if f.Name != "good.json" && !strings.HasPrefix(f.Problem, "refused") {
			t.Errorf("%+v", f)
		}
	}
	if report.Total.Conversations != 1 {
		t.Errorf("%+v", report)
	}
}

// TestLogOfDatabase reads a database whose newest rows are only in its write-ahead log. SQLite itself makes it.
func TestLogOfDatabase(t *testing.T) {
	program, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("sqlite3 is not installed")
	}
	path := filepath.Join(t.TempDir(), "s.db")
	long := strings.Repeat("ab", 9000)
	sql := `PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;
CREATE TABLE "my messages" (id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, message_data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, CHECK (id > 0));
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 3000)
INSERT INTO "my messages" SELECT i, 's', json_object('role', iif(i % 2, 'user', 'assistant'), 'content', 'text ' || i || iif(i = 7, '` + long + `', '')), '2026-01-01 00:00:00' FROM n;
.shell cp ` + path + ` ` + path + `.copy; cp ` + path + `-wal ` + path + `.copy-wal
`
	cmd := exec.Command(program, path)
	cmd.Stdin = strings.NewReader(sql)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	main, _ := os.ReadFile(path + ".copy")
	log, _ := os.ReadFile(path + ".copy-wal")
	sink, report := read(t, file("s.db", main), file("s.db-wal", log))
	if report.Total.Messages != 3000 || len(sink.conversations) != 1 {
		t.Fatalf("%+v", report)
	}
	n := 0
	for _, turn := range sink.conversations[0].Turns {
		for _, m := range turn.Messages {
			n++
			want := fmt.Sprintf("text %d", n)
			if n == 7 {
				want += long
			}
			if got := show(m).Text; got != want {
				t.Fatalf("message %d is %.40q", n, got)
			}
		}
	}
	if slices.ContainsFunc(report.Files, func(f FileReport) bool { return strings.HasPrefix(f.Problem, "unreadable") }) {
		t.Errorf("%+v", report.Files)
	}
}

// TestNoObjects reads records of which a part is null, or a text, where an object is expected.
func TestNoObjects(t *testing.T) {
	codexRow := `{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"a"}}` + "\n" +
		`{"timestamp":"2026-01-01T00:00:00Z","type":"response_item","payload":%s}`
	for name, row := range map[string]string{
		"null as a payload": fmt.Sprintf(codexRow, `null`),
		"text as a payload": fmt.Sprintf(codexRow, `"x"`),
		"null as a call":    `{"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[null]}]}`,
		"text as a call":    `{"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":["x"]}]}`,
		"null as LangChain's call": `[{"type":"human","data":{"content":"x"}},` +
			`{"type":"ai","data":{"content":"","additional_kwargs":{"tool_calls":[null]}}}]`,
	} {
		if _, report := read(t, file(name, []byte(row))); report.Total.LeftOut[UnknownRecord] != 1 {
			t.Errorf("%s: %+v", name, report)
		}
	}
}

// TestHostileZips reads a zip with a directory that is too large, and one that claims too much of a file.
func TestHostileZips(t *testing.T) {
	var large bytes.Buffer
	z := zip.NewWriter(&large)
	for i := range maxDirectory/(60<<10) + 2 {
		_, _ = z.CreateRaw(&zip.FileHeader{Name: fmt.Sprint(i), Comment: strings.Repeat("c", 60<<10)})
	}
	_ = z.Close()
	if _, report := read(t, file("large", large.Bytes())); !strings.Contains(report.Files[0].Problem, "directory") {
		t.Errorf("%+v", report)
	}
	var claims bytes.Buffer
	z = zip.NewWriter(&claims)
	w, _ := z.CreateHeader(&zip.FileHeader{Name: "a", Method: zip.Deflate})
	zeros := make([]byte, 1<<20)
	for range freeRatio>>20 + 8 {
		_, _ = w.Write(zeros)
	}
	_ = z.Close()
	raw := claims.Bytes()
	at := bytes.LastIndex(raw, []byte("PK\x01\x02"))
	copy(raw[at+20:], []byte{0, 0, 0, 0x7F}) // the packed size
	set := &fileSet{options: Options{TempDir: t.TempDir()}}
	defer set.close()
	if err := set.open(file("claims", raw)); err != nil {
		t.Fatal(err)
	}
	if l := set.leaves[0]; !strings.HasPrefix(l.problem, "refused") {
		t.Errorf("%q", l.problem)
	}
	if set.unpacked != 0 || set.written != freeRatio+1 {
		t.Errorf("%d bytes, %d written", set.unpacked, set.written)
	}
	if left, _ := os.ReadDir(set.options.TempDir); len(left) != 0 {
		t.Errorf("there is a file %s", left[0].Name())
	}
}

// TestManyImages reads a message with more images than one message may have.
func TestManyImages(t *testing.T) {
	image := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, maxAsset-8)...)
	var parts []string
	for range 6 {
		parts = append(parts, `{"content_type":"image_asset_pointer","asset_pointer":"file-service://file-a"}`)
	}
	chat := `[{"title":"t","conversation_id":"c","current_node":"n","mapping":{"n":{"id":"n","parent":null,"children":[],"message":{"id":"n",` +
		`"author":{"role":"user"},"recipient":"all","content":{"content_type":"multimodal_text","parts":[` + strings.Join(parts, ",") + `]}}}}}]`
	sink, report := read(t, file("x/conversations.json", []byte(chat)), file("x/file-a.png", image))
	if report.Total.LeftOut[ImageMissing] != 2 || len(sink.conversations) != 1 || show(sink.conversations[0].Turns[0].Messages[0]).Images != 4 {
		t.Errorf("%+v", report)
	}
}
