// Command bench compares Mneme with its peers, or measures it at growing sizes, and prints tables for
// docs/BENCHMARKS.md. bench/run starts it with everything that it needs.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.mneme, "mneme", "", "Mneme's built program")
	flag.StringVar(&o.peers, "peers", "", "the folder where peers are installed")
	flag.StringVar(&o.work, "work", "", "an empty folder on a real disk")
	flag.BoolVar(&o.short, "short", false, "fewer rounds and smaller sizes, which shows that all of it works")
	flag.StringVar(&o.before, "before", "", "another build of Mneme, to compare with instead of the peers")
	flag.StringVar(&o.only, "only", "", "a text that must be in the name of a row or a curve")
	scale := flag.Bool("scale", false, "print Mneme's own curves instead")
	disk := flag.Bool("writes", false, "print what turns and memories write to the disk instead")
	recall := flag.Bool("recall", false, "print what recall among 100,000 memories and their import cost instead")
	flag.IntVar(&o.seconds, "seconds", 6, "the duration of each row of --writes")
	folder := flag.String("windows", "", "a folder with recorded transcripts, whose windows are compared instead")
	shape := flag.String("shape", "single", "what a session of --windows is: single, braid4, braid8, or chain")
	flag.IntVar(&o.tokens, "tokens", 8000, "the maximum of a window's tokens, with --windows")
	flag.IntVar(&o.messages, "messages", 50, "the maximum of a window's messages, with --windows")
	flag.Parse()
	run := compare
	if *folder != "" {
		run = func(o options) error { return compareWindows(o, *folder, *shape, os.Stdout) }
	}
	if *scale {
		run = curves
	}
	if *disk {
		run = writes
	}
	if *recall {
		run = recalls
	}
	if err := run(o); err != nil {
		log.Fatalf("bench: %v", err)
	}
}

type options struct {
	mneme, peers, work, before, only string
	short                            bool
	tokens, messages, seconds        int
}

// pick returns the number for the long or the short form.
func (o options) pick(long, short int) int {
	if o.short {
		return short
	}
	return long
}

// row is one kind of work, done by all systems that support it.
type row struct {
	title   string
	prepare func(system, what) error
	batch   func(round int) []command
}

// compare prints the table of peers, or of two builds. Each row is one run: rounds alternate between the systems.
func compare(o options) error {
	all, err := transcripts()
	if err != nil {
		return err
	}
	rounds, turns := o.pick(10, 2), whole(all)
	texts := memoryTexts(turns, o.pick(10_000, 500))
	rows := []row{{
		title: "append a turn",
		batch: func(round int) []command { return appends(all, round, o.pick(200, 20)) },
	}}
	for _, size := range []int{50, 1000} {
		session := fmt.Sprint("window-", size)
		rows = append(rows, row{
			title:   fmt.Sprintf("window of a session of %d messages", size),
			prepare: func(s system, _ what) error { return fill(s, session, turns, size) },
			batch: func(int) []command {
				return slices.Repeat([]command{{Do: window, Session: session, Tokens: 8000, Limit: 50}}, o.pick(30, 5))
			},
		})
	}
	rows = append(rows, row{
		title: fmt.Sprintf("search in %d memories", len(texts)),
		prepare: func(s system, _ what) error {
			for _, text := range texts {
				if _, err := s.do(command{Do: keep, Text: text}); err != nil {
					return err
				}
			}
			return s.settle()
		},
		batch: func(round int) []command { return searches(texts, round, o.pick(50, 10)) },
	})
	systems, stop, err := startAll(o)
	defer stop()
	if err != nil {
		return err
	}
	fmt.Println("| work | by | p50, ratio to the first | processor time, ratio | p50 | processor time | what it is |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, r := range rows {
		if !strings.Contains(r.title, o.only) {
			continue
		}
		if err := r.print(systems, rounds); err != nil {
			return fmt.Errorf("%s: %w", r.title, err)
		}
	}
	return nil
}

// print runs a row and prints a line for each system, Mneme first.
func (r *row) print(systems []peer, rounds int) error {
	kind := r.batch(0)[0].Do
	systems = slices.DeleteFunc(slices.Clone(systems), func(p peer) bool { return !slices.Contains(p.does, kind) })
	took := make([]costs, len(systems))
	for _, p := range systems {
		if r.prepare == nil {
			break
		}
		if err := r.prepare(p, kind); err != nil {
			return fmt.Errorf("%s: preparing: %w", p.name, err)
		}
	}
	for round := range rounds + 1 {
		for i, p := range systems {
			c, err := p.run(r.batch(round))
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if round > 0 { // the first round warms caches
				took[i].add(c)
			}
		}
	}
	line := func(name string, t *costs, is string) {
		base := &took[0]
		fmt.Printf("| %s | %s | %.2f | %.2f | %.0f µs | %.0f µs | %s |\n", r.title, name,
			t.p50()/base.p50(), t.mean()/base.mean(), t.p50(), t.mean(), is)
	}
	for i, p := range systems {
		line(p.name, &took[i], p.is)
		if outside := took[i].outside; outside != nil {
			line(p.name+", as a process of its own", outside, "the same calls as seen by a client, over a pipe, in JSON")
		}
	}
	return nil
}

// costs are the durations of calls.
type costs struct {
	walls []float64 // of each call, in µs
	cpu   float64   // of all calls, in µs
	// outside is what the same calls cost as seen from another process; nil for systems that are only seen so.
	outside *costs
}

func (c *costs) add(more costs) {
	c.walls = append(c.walls, more.walls...)
	c.cpu += more.cpu
	if more.outside != nil {
		if c.outside == nil {
			c.outside = new(costs)
		}
		c.outside.add(*more.outside)
	}
}

func (c *costs) p50() float64 { return median(c.walls) }

func (c *costs) mean() float64 { return c.cpu / float64(len(c.walls)) }

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}

// folder creates an empty folder for a system's data.
func (o options) folder(name string) (string, error) {
	path := filepath.Join(o.work, fmt.Sprintf("%s-%d", name, time.Now().UnixNano()))
	return path, os.MkdirAll(path, 0o700)
}

func env(name, otherwise string) string { return cmp.Or(os.Getenv(name), otherwise) }
