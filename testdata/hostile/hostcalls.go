package hostile

import (
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	op "github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// callers returns attacks that pass invalid arguments to host functions.
func callers() []Attack {
	const far, least = -16, -1 << 31 // a pointer 16 bytes below 4 GiB, and the most negative number
	var list []Attack
	add := func(function, suffix, doc, words string, drop bool, build func(*guest) []byte) {
		list = append(list, Attack{
			Name: function + "-" + suffix, Doc: doc, Status: plan.StatusTrap, Words: words,
			Build: func() []byte {
				g := &guest{}
				body := build(g)
				if drop {
					body = append(body, op.Drop)
				}
				return g.bytes(body, result(0))
			},
		})
	}
	for _, f := range []struct {
		name   string
		before []int32 // arguments before pointer and length
		drop   bool
	}{
		{"text", []int32{0, 0}, true}, {"tokens", nil, true}, {"find", []int32{0}, true},
		{"args", []int32{1, 0, 0}, true}, {"name", []int32{1, 0}, true}, {"score", []int32{0}, true},
		{"log", []int32{1}, false}, {"fail", nil, false},
	} {
		with := func(ptr, length int32) func(*guest) []byte {
			return func(g *guest) []byte {
				return call(g.mneme(f.name), append(f.before[:len(f.before):len(f.before)], ptr, length)...)
			}
		}
		add(f.name, "negative-length", "passes a negative length to `"+f.name+"`", "is negative", f.drop, with(0, least))
		add(f.name, "past-memory", "passes a pointer past its memory to `"+f.name+"`", "pass the end of memory", f.drop,
			with(far, 64))
		add(f.name, "longer-than-memory", "passes a length of 2 GiB to `"+f.name+"`", "pass the end of memory", f.drop,
			with(0, 1<<31-1))
	}
	add("text", "negative-offset", "passes a negative offset to `text`", "offset -1 is negative", true,
		func(g *guest) []byte { return call(g.mneme("text"), 0, -1, 0, 64) })
	add("args", "negative-offset", "passes a negative offset to `args`", "offset -1 is negative", true,
		func(g *guest) []byte { return call(g.mneme("args"), 1, 0, -1, 0, 64) })
	add("log", "level", "logs on a level that is not there", "level 4", false,
		func(g *guest) []byte { return call(g.mneme("log"), 4, 0, 0) })
	add("random_get", "past-memory", "has random bytes written past its memory", "pass the end of memory", true,
		func(g *guest) []byte { return call(g.wasi("random_get", 2, i32s(1)), far, 64) })
	add("fd_write", "past-memory", "names vectors past its memory", "pass the end of memory", true,
		func(g *guest) []byte { return call(g.wasi("fd_write", 4, i32s(1)), 2, far, 1000, 0) })
	add("poll_oneoff", "past-memory", "has events written past its memory", "pass the end of memory", true,
		func(g *guest) []byte { return call(g.wasi("poll_oneoff", 4, i32s(1)), 0, far, 1000, 0) })
	return list
}

// floods returns attacks that make the host work, each with a different function.
func floods() []Attack {
	quota, fuel := plan.StatusHostQuota, plan.StatusFuelExhausted
	flood := func(name, doc string, status plan.Status, words string, build func(*guest) []byte) Attack {
		return Attack{Name: name, Doc: doc, Status: status, Words: words, Build: func() []byte {
			g := &guest{}
			return g.bytes(forever(build(g)), result(0))
		}}
	}
	return []Attack{
		flood("log-flood", "logs a kilobyte on and on", quota, "bytes of log",
			func(g *guest) []byte { return call(g.mneme("log"), 1, 0, 1024) }),
		flood("log-empty-flood", "logs nothing, ten thousand times", quota, "bytes of log",
			func(g *guest) []byte { return call(g.mneme("log"), 1, 0, 0) }),
		flood("fail-flood", "gives its author's message again and again", quota, "bytes of log",
			func(g *guest) []byte { return call(g.mneme("fail"), 0, 1024) }),
		flood("text-flood", "reads the same text on and on", quota, "",
			func(g *guest) []byte { return code(call(g.mneme("text"), 0, 0, 0, 64<<10), Op(op.Drop)) }),
		flood("text-peek", "asks for the length of every text, one after the other, on and on", fuel, "mneme.text",
			func(g *guest) []byte {
				text := g.mneme("text")
				var all []byte
				for record := range int32(Records) {
					all = append(all, code(call(text, record, 0, 0, 0), Op(op.Drop))...)
				}
				return all
			}),
		flood("find-flood", "searches the same text on and on", quota, "",
			func(g *guest) []byte { return code(call(g.mneme("find"), 0, 0, 64<<10), Op(op.Drop)) }),
		flood("args-flood", "reads the same arguments on and on", quota, "",
			func(g *guest) []byte { return code(call(g.mneme("args"), 1, 0, 0, 0, 64<<10), Op(op.Drop)) }),
		flood("args-peek", "asks for the length of all arguments, one after the other, on and on", fuel, "mneme.args",
			func(g *guest) []byte {
				args := g.mneme("args")
				var all []byte
				for record := range int32(Records) {
					all = append(all, code(call(args, record, 0, 0, 0, 0), Op(op.Drop))...)
				}
				return all
			}),
		flood("name-flood", "asks for names on and on", quota, "host calls",
			func(g *guest) []byte { return code(call(g.mneme("name"), 1, 0, 0, 64), Op(op.Drop)) }),
		flood("score-flood", "scores the same text on and on", fuel, "mneme.score",
			func(g *guest) []byte { return code(call(g.mneme("score"), 0, 0, 8), Op(op.Drop)) }),
		flood("score-long-query", "scores by 64 KiB of its memory on and on", fuel, "mneme.score",
			func(g *guest) []byte { return code(call(g.mneme("score"), 0, 0, 64<<10), Op(op.Drop)) }),
		flood("tokens-flood", "has its memory tokenised, 64 KiB at a time", fuel, "mneme.tokens",
			func(g *guest) []byte { return code(call(g.mneme("tokens"), 0, 64<<10), Op(op.Drop)) }),
		flood("random-flood", "takes randomness on and on", quota, "bytes of text",
			func(g *guest) []byte { return code(call(g.wasi("random_get", 2, i32s(1)), 0, 64<<10), Op(op.Drop)) }),
		flood("print-flood", "prints on and on", fuel, "fd_write", func(g *guest) []byte {
			const vectors, written = 64, 60_000
			g.Data(vectors, code(times(1000, []byte{0, 0, 0, 0, 0, 1, 0, 0}))) // 256 bytes at 0, a thousand times
			return code(call(g.wasi("fd_write", 4, i32s(1)), 2, vectors, 1000, written), Op(op.Drop))
		}),
		flood("sleep", "sleeps an hour, on and on", quota, "host calls", func(g *guest) []byte {
			const subscription, clock, nanos = 1024, 1, 3600 * 1e9
			hour := make([]byte, 48)
			hour[16] = clock
			for i := range 8 {
				hour[24+i] = byte(uint64(nanos) >> (8 * i))
			}
			g.Data(subscription, hour)
			return code(call(g.wasi("poll_oneoff", 4, i32s(1)), subscription, 2048, 1, 4096), Op(op.Drop))
		}),
		{Name: "clock-wait", Doc: "waits for the clock to move", Status: quota, Words: "host calls", Build: clockWait},
		flood("yield", "yields on and on", quota, "host calls",
			func(g *guest) []byte { return code(Op(op.Call, g.wasi("sched_yield", 0, i32s(1))), Op(op.Drop)) }),
	}
}

func clockWait() []byte {
	const at, first = 1024, 1032
	g := &guest{}
	clock := g.Import("wasi_snapshot_preview1", "clock_time_get", Types{wasm.I32, wasm.I64, wasm.I32}, i32s(1))
	read := func(at int32) []byte {
		return code(I32Const(1), I64Const(0), I32Const(at), Op(op.Call, clock), Op(op.Drop))
	}
	load := func(at int32) []byte { return code(I32Const(at), Op(op.I64Load, 3, 0)) }
	return g.bytes(read(first), Op(op.Loop, Void), read(at), load(at), load(first), Op(op.I64Sub), Op(op.I64Eqz),
		Op(op.BrIf, 0), Op(op.End), result(0))
}
