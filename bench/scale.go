package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
)

// curve measures Mneme while one quantity grows.
type curve struct {
	of     string
	points []int
	grow   func(m *mneme, from, to int) error
	// session gets the turns and the windows.
	session string
}

// fillers is the number of clients that fill a server concurrently.
const fillers = 16

// curves prints the cost of one turn, one window and one recall as the stored data grows, each curve on a separate
// server.
func curves(o options) error {
	all, err := transcripts()
	if err != nil {
		return err
	}
	turns := whole(all)
	// A large turn has as many messages as one request may carry, so that a million are stored within minutes.
	var large turn
	for _, t := range turns {
		if len(large)+len(t) > 200 {
			break
		}
		large = append(large, t...)
	}
	texts := memoryTexts(turns, o.pick(300_000, 3000))
	module, err := os.ReadFile("policies/tool-pair-trim/tool-pair-trim.wasm")
	if err != nil {
		return err
	}
	points := func(long ...int) []int {
		if o.short {
			return []int{1, 10}
		}
		return long
	}
	list := []curve{
		{"sessions", points(100, 10_000, 100_000), func(m *mneme, from, to int) error {
			return each(from, to, func(i int) error {
				_, err := m.do(command{Do: appendTurn, Session: fmt.Sprint("other-", i), Messages: turns[i%len(turns)]})
				return err
			})
		}, "s"},
		{"messages in the session", points(1000, 100_000, 1_000_000), func(m *mneme, from, to int) error {
			for at := from; at < to; at += len(large) {
				if _, err := m.do(command{Do: appendTurn, Session: "s", Messages: large}); err != nil {
					return err
				}
			}
			return nil
		}, "s"},
		{"memories", points(1000, 10_000, 100_000, 300_000), func(m *mneme, from, to int) error {
			return each(from, to, func(i int) error {
				_, err := m.do(command{Do: keep, Text: texts[i]})
				return err
			})
		}, "s"},
		{"tenants", points(10, 1000, 5000), func(m *mneme, from, to int) error {
			return each(from, to, func(i int) error { return m.tenant(i, turns[i%len(turns)]) })
		}, "s"},
		{"policies", points(5, 50, 200), func(m *mneme, from, to int) error {
			for i := from; i < to; i++ {
				if err := m.upload(module, i); err != nil {
					return err
				}
			}
			return nil
		}, "s"},
	}
	fmt.Println("| what grows | to | turn | window | recall |\n|---|---|---|---|---|")
	for _, c := range list {
		if !strings.Contains(c.of, o.only) {
			continue
		}
		if err := c.print(o, turns, texts); err != nil {
			return fmt.Errorf("%s: %w", c.of, err)
		}
	}
	return nil
}

func (c *curve) print(o options, turns []turn, texts []string) error {
	m, err := startMneme(o)
	if err != nil {
		return err
	}
	defer m.stop()
	if err := fill(m, c.session, turns, 50); err != nil {
		return err
	}
	for _, text := range texts[:min(len(texts), 100)] {
		if _, err := m.do(command{Do: keep, Text: text}); err != nil {
			return err
		}
	}
	var first [3]float64
	have := 0
	for _, point := range c.points {
		if err := c.grow(m, have, point); err != nil {
			return err
		}
		have = point
		if err := m.settle(); err != nil {
			return err
		}
		fmt.Printf("| %s | %d |", c.of, point)
		n := o.pick(400, 10)
		asked := texts[:min(len(texts), max(point, 100))]
		for i, batch := range [][]command{c.turns(turns, n), windows(c.session, n), searches(asked, 1, n)} {
			if _, err := m.run(batch[:n/4]); err != nil { // exclude the cost of first reads
				return err
			}
			took, err := m.run(batch)
			if err != nil {
				return err
			}
			if point == c.points[0] {
				first[i] = took.mean()
			}
			fmt.Printf(" %.2fx, %.0f µs, p50 %.0f µs |", took.mean()/first[i], took.mean(), took.p50())
		}
		fmt.Println()
	}
	return nil
}

func (c *curve) turns(turns []turn, n int) (out []command) {
	for i := range n {
		out = append(out, command{Do: appendTurn, Session: c.session, Messages: turns[i%len(turns)]})
	}
	return out
}

func windows(session string, n int) (out []command) {
	for range n {
		out = append(out, command{Do: window, Session: session, Tokens: 8000, Limit: 50})
	}
	return out
}

// each calls do for from..to from several goroutines, and returns the first error.
func each(from, to int, do func(i int) error) error {
	next, errs := make(chan int), make(chan error, fillers)
	var all sync.WaitGroup
	for range fillers {
		all.Go(func() {
			var failed error
			for i := range next {
				if failed == nil {
					failed = do(i)
				}
			}
			errs <- failed
		})
	}
	for i := from; i < to; i++ {
		next <- i
	}
	close(next)
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// tenant creates another tenant with one turn and one window. Measurements use the first tenant.
func (m *mneme) tenant(i int, t turn) error {
	b, _, err := m.post(rootKey, "/tenants", "application/json", fmt.Appendf(nil, `{"id":"tenant-%d"}`, i), 201)
	if err != nil {
		return err
	}
	var made struct {
		AdminKey string `json:"admin_key"`
	}
	if err := json.Unmarshal(b, &made); err != nil {
		return err
	}
	other := *m
	other.key = made.AdminKey
	if _, err := other.do(command{Do: appendTurn, Session: "s", Messages: t}); err != nil {
		return err
	}
	_, err = other.do(command{Do: window, Session: "s", Tokens: 8000, Limit: 50})
	return err
}

// upload uploads a version of a policy whose bytes differ from all earlier versions.
func (m *mneme) upload(module []byte, i int) error {
	// A custom section, which has no effect: id 0, its length, the length of its name, its name.
	name := fmt.Sprintf("copy-%06d", i)
	copied := append(append([]byte{}, module...), 0, byte(len(name)+1), byte(len(name)))
	copied = append(copied, name...)
	_, _, err := m.post(m.adm, fmt.Sprintf("/policies?name=copy-%d", i), "application/wasm", copied, 201)
	return err
}
