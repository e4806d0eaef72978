package engine_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// importedBytes is the size of each file that BenchmarkImport imports.
const importedBytes = 100e6

// BenchmarkImport imports tenants' export files of 100 MB into a store on disk: recorded sessions, one very long
// session, and memories of 300 bytes. It reports megabytes per second, and the CPU time per megabyte.
func BenchmarkImport(b *testing.B) {
	talks := recordedTalks(b)
	for _, file := range []struct {
		name  string
		lines func(add func(format string, args ...any) (more bool))
	}{
		{"sessions", func(add func(string, ...any) bool) {
			for n := 0; ; n++ {
				talk := talks[n%len(talks)]
				add(`{"type":"session","project":"bench","id":"s%d","created_at":"2026-03-05T12:00:00Z"}`, n)
				for turn, messages := range talk {
					add(`{"type":"turn","turn":%d,"messages":[%s]}`, turn+1, messages)
				}
				if !add(`{"type":"session_end","turns":%d}`, len(talk)) {
					return
				}
			}
		}},
		{"one-session", func(add func(string, ...any) bool) {
			add(`{"type":"session","project":"bench","id":"long","created_at":"2026-03-05T12:00:00Z"}`)
			for n, more := 0, true; more; {
				for _, messages := range talks[n%len(talks)] {
					n++
					if more = add(`{"type":"turn","turn":%d,"messages":[%s]}`, n, messages); !more {
						break
					}
				}
				if !more {
					add(`{"type":"session_end","turns":%d}`, n)
				}
			}
		}},
		{"memories", func(add func(string, ...any) bool) {
			var words []string
			for _, talk := range talks {
				for _, turn := range talk {
					words = append(words, strings.Fields(strings.Map(letters, turn))...)
				}
			}
			for n := 0; ; n++ {
				at := n * 31 % (len(words) - 50)
				if !add(`{"type":"memory","project":"bench","key":"k%d","content":%q,"category":"core","tags":["t%d"],"importance":0.5,`+
					`"created_at":"2026-03-05T12:00:00Z","updated_at":"2026-03-05T12:00:00Z","version":1}`, n,
					strings.Join(words[at:at+50], " "), n%100) {
					return
				}
			}
		}},
	} {
		b.Run(file.name, func(b *testing.B) {
			body := bytes.NewBufferString(`{"mneme_export":1,"tenant":"bench","created_at":"2026-03-05T12:00:00Z"}` + "\n" +
				`{"type":"project","id":"bench","name":"bench"}` + "\n")
			file.lines(func(format string, args ...any) bool {
				fmt.Fprintf(body, format+"\n", args...)
				return body.Len() < importedBytes
			})
			whole := sealed(strings.Split(strings.TrimSuffix(body.String(), "\n"), "\n"))
			b.SetBytes(int64(len(whole)))
			for b.Loop() {
				b.StopTimer()
				db := enginetest.OpenBadger(b, b.TempDir())
				k := enginetest.Open(b, db)
				asTenant(k, "bench")
				b.StartTimer()
				before := benchtest.ProcessorTime()
				if _, err := k.ImportTenant(b.Context(), k.Admin, ident.Once{}, transfer.ImportSpec{}, bytes.NewReader(whole)); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric((benchtest.ProcessorTime()-before).Seconds()*1e9/float64(len(whole)), "cpu-ns/B")
				b.StopTimer()
				_ = db.Close()
				b.StartTimer()
			}
		})
	}
}

func letters(r rune) rune {
	if r >= 'a' && r <= 'z' || r == ' ' {
		return r
	}
	return -1
}

// recordedTalks returns the turns of recorded sessions, each as the messages of a line.
func recordedTalks(b *testing.B) (talks [][]string) {
	b.Helper()
	f, err := os.Open(filepath.Join(os.Getenv("MNEME_TESTDATA"), "tau-airline-50.jsonl"))
	if err != nil {
		b.Skip("MNEME_TESTDATA names the folder with tau-airline-50.jsonl: ", err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var talk struct{ Messages []json.RawMessage }
		if err := json.Unmarshal(in.Bytes(), &talk); err != nil {
			b.Fatal(err)
		}
		var turns []string
		for _, m := range talk.Messages {
			var of struct{ Role string }
			if err := json.Unmarshal(m, &of); err != nil {
				b.Fatal(err)
			}
			if of.Role == "system" {
				continue
			}
			line := fmt.Sprintf(`{"format":"openai.chat","created_at":"2026-03-05T12:00:00Z","message":%s}`, m)
			if of.Role == "user" || len(turns) == 0 {
				turns = append(turns, line)
			} else {
				turns[len(turns)-1] += "," + line
			}
		}
		talks = append(talks, turns)
	}
	return talks
}
