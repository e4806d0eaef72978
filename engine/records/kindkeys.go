package records

import "github.com/seed-0906e6bc/mneme/engine/store"

// The types below are kinds by the number of parts of their keys. Each adds one part to the previous type, and has
// these methods:
//
//	Key    returns a key of all parts, with one allocation.
//	Split  returns the parts of a key; ok is false if the key is of another kind.
//	Under  covers the keys that begin with the first part; Under2 takes the first two parts, and so on.

// kind0 is a kind of a single record.
type kind0 struct {
	kind
	key []byte
}

func key0(name, prefix, doc string) *kind0 {
	return declare(&kind0{kind{name: name, prefix: prefix, doc: doc}, []byte(prefix)})
}

// Key returns the key, which callers must not change.
func (k *kind0) Key() []byte { return k.key }

type kind1[A any] struct {
	kind
	a part[A]
}

func key1[A any](name, prefix string, a part[A], doc string) *kind1[A] {
	k := &kind1[A]{a: a}
	k.kind = kind{name: name, prefix: prefix, doc: doc, parts: []keyPart{a.keyPart}}
	return declare(k)
}

// begin starts a key with the parts and reserves more bytes of capacity.
func (k *kind1[A]) begin(a A, more int) []byte {
	key := append(make([]byte, 0, len(k.prefix)+k.a.room(a)+more), k.prefix...)
	return k.a.append(key, a)
}

// read reads the parts at the start of a key.
func (k *kind1[A]) read(key []byte) (a A, rest []byte, ok bool) {
	if rest, ok = k.cut(key); ok {
		rest, ok = k.a.take(rest, &a)
	}
	return a, rest, ok
}

func (k *kind1[A]) Key(a A) []byte { return k.begin(a, 0) }

func (k *kind1[A]) Split(key []byte) (a A, ok bool) {
	a, rest, ok := k.read(key)
	return a, ok && len(rest) == 0
}

type kind2[A, B any] struct {
	kind1[A]
	b part[B]
}

func key2[A, B any](name, prefix string, a part[A], b part[B], doc string) *kind2[A, B] {
	k := &kind2[A, B]{b: b}
	k.kind, k.a = kind{name: name, prefix: prefix, doc: doc, parts: []keyPart{a.keyPart, b.keyPart}}, a
	return declare(k)
}

func (k *kind2[A, B]) begin(a A, b B, more int) []byte {
	return k.b.append(k.kind1.begin(a, k.b.room(b)+more), b)
}

func (k *kind2[A, B]) read(key []byte) (a A, b B, rest []byte, ok bool) {
	if a, rest, ok = k.kind1.read(key); ok {
		rest, ok = k.b.take(rest, &b)
	}
	return a, b, rest, ok
}

func (k *kind2[A, B]) Key(a A, b B) []byte { return k.begin(a, b, 0) }

func (k *kind2[A, B]) Split(key []byte) (a A, b B, ok bool) {
	a, b, rest, ok := k.read(key)
	return a, b, ok && len(rest) == 0
}

func (k *kind2[A, B]) Under(a A) store.Range { return PrefixRange(k.kind1.Key(a)) }

// Before covers the keys whose first part comes before a.
func (k *kind2[A, B]) Before(a A) store.Range {
	return store.Range{From: k.All().From, To: k.Under(a).From}
}

type kind3[A, B, C any] struct {
	kind2[A, B]
	c part[C]
}

func key3[A, B, C any](name, prefix string, a part[A], b part[B], c part[C], doc string) *kind3[A, B, C] {
	k := &kind3[A, B, C]{c: c}
	k.kind = kind{name: name, prefix: prefix, doc: doc, parts: []keyPart{a.keyPart, b.keyPart, c.keyPart}}
	k.a, k.b = a, b
	return declare(k)
}

func (k *kind3[A, B, C]) begin(a A, b B, c C, more int) []byte {
	return k.c.append(k.kind2.begin(a, b, k.c.room(c)+more), c)
}

func (k *kind3[A, B, C]) read(key []byte) (a A, b B, c C, rest []byte, ok bool) {
	if a, b, rest, ok = k.kind2.read(key); ok {
		rest, ok = k.c.take(rest, &c)
	}
	return a, b, c, rest, ok
}

func (k *kind3[A, B, C]) Key(a A, b B, c C) []byte { return k.begin(a, b, c, 0) }

func (k *kind3[A, B, C]) Split(key []byte) (a A, b B, c C, ok bool) {
	a, b, c, rest, ok := k.read(key)
	return a, b, c, ok && len(rest) == 0
}

func (k *kind3[A, B, C]) Under2(a A, b B) store.Range { return PrefixRange(k.kind2.Key(a, b)) }

type kind4[A, B, C, D any] struct {
	kind3[A, B, C]
	d part[D]
}

func key4[A, B, C, D any](name, prefix string, a part[A], b part[B], c part[C], d part[D],
	doc string) *kind4[A, B, C, D] {
	k := &kind4[A, B, C, D]{d: d}
	k.kind = kind{name: name, prefix: prefix, doc: doc,
		parts: []keyPart{a.keyPart, b.keyPart, c.keyPart, d.keyPart}}
	k.a, k.b, k.c = a, b, c
	return declare(k)
}

func (k *kind4[A, B, C, D]) begin(a A, b B, c C, d D, more int) []byte {
	return k.d.append(k.kind3.begin(a, b, c, k.d.room(d)+more), d)
}

func (k *kind4[A, B, C, D]) read(key []byte) (a A, b B, c C, d D, rest []byte, ok bool) {
	if a, b, c, rest, ok = k.kind3.read(key); ok {
		rest, ok = k.d.take(rest, &d)
	}
	return a, b, c, d, rest, ok
}

func (k *kind4[A, B, C, D]) Key(a A, b B, c C, d D) []byte { return k.begin(a, b, c, d, 0) }

func (k *kind4[A, B, C, D]) Split(key []byte) (a A, b B, c C, d D, ok bool) {
	a, b, c, d, rest, ok := k.read(key)
	return a, b, c, d, ok && len(rest) == 0
}

func (k *kind4[A, B, C, D]) Under3(a A, b B, c C) store.Range {
	return PrefixRange(k.kind3.Key(a, b, c))
}

type kind5[A, B, C, D, E any] struct {
	kind4[A, B, C, D]
	e part[E]
}

func key5[A, B, C, D, E any](name, prefix string, a part[A], b part[B], c part[C], d part[D], e part[E],
	doc string) *kind5[A, B, C, D, E] {
	k := &kind5[A, B, C, D, E]{e: e}
	k.kind = kind{name: name, prefix: prefix, doc: doc,
		parts: []keyPart{a.keyPart, b.keyPart, c.keyPart, d.keyPart, e.keyPart}}
	k.a, k.b, k.c, k.d = a, b, c, d
	return declare(k)
}

func (k *kind5[A, B, C, D, E]) Key(a A, b B, c C, d D, e E) []byte {
	return k.e.append(k.begin(a, b, c, d, k.e.room(e)), e)
}

func (k *kind5[A, B, C, D, E]) Split(key []byte) (a A, b B, c C, d D, e E, ok bool) {
	a, b, c, d, rest, ok := k.read(key)
	if ok {
		rest, ok = k.e.take(rest, &e)
	}
	return a, b, c, d, e, ok && len(rest) == 0
}

// group covers the records of several kinds whose keys begin with the same prefix and part.
type group[A any] struct {
	prefix string
	a      part[A]
}

func (g *group[A]) All() store.Range { return PrefixRange([]byte(g.prefix)) }

func (g *group[A]) Under(a A) store.Range { return PrefixRange(g.a.append([]byte(g.prefix), a)) }
