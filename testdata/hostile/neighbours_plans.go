package hostile

import (
	"math"
	"strings"
)

// planningNeighbours returns modules whose plans make the host work.
func planningNeighbours() []Neighbour {
	var list []Neighbour
	add := func(name, doc string, items ...item) {
		list = append(list, Neighbour{name, doc, func() []byte { return answering(planOf(items...)) }})
	}
	long := func(s string) string { return strings.Repeat(s, 16<<10/len(s)) }
	replace := func(text string) item {
		return item{op: opReplace, first: BigRecords, last: allRecords - 1, text: text, reason: "r"}
	}
	each := func(first, step uint32, make func(at uint32) item) (all []item) {
		for at := first; at < allRecords; at += step {
			all = append(all, make(at))
		}
		return all
	}
	truncate := func(first, last, tokens uint32) item {
		return item{op: opTruncate, first: first, last: last, argument: tokens, reason: "t"}
	}
	add("plan-replace-words", "replaces 390 records by 16 KiB of words", replace(long("some words ")))
	add("plan-replace-blanks", "replaces 390 records by 16 KiB of blanks", replace(long(" ")))
	add("plan-replace-base64", "replaces 390 records by 16 KiB without a blank", replace(long("aGVsbG8gd29y")))
	add("plan-replace-emoji", "replaces 390 records by 16 KiB of emoji", replace(long("🙂")))
	add("plan-replace-each", "replaces each record by a text of its own", each(BigRecords, 1, func(at uint32) item {
		return item{op: opReplace, first: at, last: at, text: strings.Repeat("ab ", 13), reason: "r"}
	})...)
	add("plan-truncate-2", "truncates 900 KB to 2 tokens", truncate(0, 1, 2))
	add("plan-truncate-1000", "truncates 900 KB to 1,000 tokens", truncate(0, 1, 1000))
	add("plan-truncate-half", "truncates 900 KB to 100,000 tokens", truncate(0, 1, 100_000))
	add("plan-truncate-least", "truncates to 4 billion tokens", truncate(0, 1, math.MaxUint32))
	add("plan-truncate-all", "truncates all records to 3 tokens", truncate(BigRecords, allRecords-1, 3))
	add("plan-truncate-each", "truncates each record on its own", each(BigRecords, 1, func(at uint32) item {
		return truncate(at, at, 2+at%7)
	})...)
	add("plan-insert-1000", "inserts 1,000 texts", each(0, 1, func(uint32) item {
		return item{op: opInsert, text: "again and again and again", reason: "i"}
	})...)
	add("plan-insert-long", "inserts 16 KiB of blanks", item{op: opInsert, text: long(" "), reason: "i"})
	add("plan-stub-each", "makes a stub of each result", each(BigRecords+2, 3, func(at uint32) item {
		return item{op: opStub, template: 1, first: at, last: at, reason: "s"}
	})...)
	add("plan-compress-each", "compresses each turn", each(BigRecords, 3, func(at uint32) item {
		return item{op: 2, template: 1, first: at, last: at + 2, reason: "c"}
	})...)
	add("plan-compress-long", "compresses the long texts", item{op: 2, template: 1, first: 0, last: 1, reason: "c"})
	add("plan-summarise", "summarises all", item{op: 7, first: 0, last: allRecords - 4, reason: "s"})
	add("plan-drop-each", "drops each turn", each(BigRecords, 3, func(at uint32) item {
		return item{op: opDrop, first: at, last: at + 2, reason: "d"}
	})...)
	return list
}
