package records

import "github.com/seed-0906e6bc/mneme/engine/store"

// The types below are kinds by the number of parts of their keys. Key makes a key with one allocation, Split gives back
// what it was made of, and Under covers the keys that begin with some of the parts.

// kind0 is a kind of a single record.
type kind0 struct {
	kind
	key []byte
}

func key0(name, prefix, doc string) *kind0 {
	return declare(&kind0{kind{Name: name, prefix: prefix, doc: doc}, []byte(prefix)})
}

// Key gives the key, which callers must not change.
func (k *kind0) Key() []byte { return k.key }

// kind1 is a kind with one part in its keys.
type kind1[A any] struct {
	kind
	a part[A]
}

func key1[A any](name, prefix string, a part[A], doc string) *kind1[A] {
	k := &kind1[A]{kind{Name: name, prefix: prefix, doc: doc}, a}
	return declare(k, a.keyPart)
}

func (k *kind1[A]) Key(a A) []byte {
	key := append(make([]byte, 0, len(k.prefix)+k.a.room(a)), k.prefix...)
	return k.a.append(key, a)
}

func (k *kind1[A]) Split(key []byte) (a A, ok bool) {
	rest, ok := k.cut(key)
	if ok {
		rest, ok = k.a.take(rest, &a)
	}
	return a, ok && len(rest) == 0
}

// kind2 is a kind with two parts in its keys.
type kind2[A, B any] struct {
	kind
	a part[A]
	b part[B]
}

func key2[A, B any](name, prefix string, a part[A], b part[B], doc string) *kind2[A, B] {
	k := &kind2[A, B]{kind{Name: name, prefix: prefix, doc: doc}, a, b}
	return declare(k, a.keyPart, b.keyPart)
}

func (k *kind2[A, B]) Key(a A, b B) []byte {
	key := append(make([]byte, 0, len(k.prefix)+k.a.room(a)+k.b.room(b)), k.prefix...)
	key = k.a.append(key, a)
	return k.b.append(key, b)
}

func (k *kind2[A, B]) Split(key []byte) (a A, b B, ok bool) {
	rest, ok := k.cut(key)
	if ok {
		rest, ok = k.a.take(rest, &a)
	}
	if ok {
		rest, ok = k.b.take(rest, &b)
	}
	return a, b, ok && len(rest) == 0
}

func (k *kind2[A, B]) Under(a A) store.Range {
	return PrefixRange(k.a.append([]byte(k.prefix), a))
}

// Before covers the keys whose first part comes before a.
func (k *kind2[A, B]) Before(a A) store.Range {
	return store.Range{From: k.All().From, To: k.Under(a).From}
}

// kind3 is a kind with three parts in its keys.
type kind3[A, B, C any] struct {
	kind
	a part[A]
	b part[B]
	c part[C]
}

func key3[A, B, C any](name, prefix string, a part[A], b part[B], c part[C], doc string) *kind3[A, B, C] {
	k := &kind3[A, B, C]{kind{Name: name, prefix: prefix, doc: doc}, a, b, c}
	return declare(k, a.keyPart, b.keyPart, c.keyPart)
}

func (k *kind3[A, B, C]) Key(a A, b B, c C) []byte {
	key := append(make([]byte, 0, len(k.prefix)+k.a.room(a)+k.b.room(b)+k.c.room(c)), k.prefix...)
	key = k.a.append(key, a)
	key = k.b.append(key, b)
	return k.c.append(key, c)
}

func (k *kind3[A, B, C]) Split(key []byte) (a A, b B, c C, ok bool) {
	rest, ok := k.cut(key)
	if ok {
		rest, ok = k.a.take(rest, &a)
	}
	if ok {
		rest, ok = k.b.take(rest, &b)
	}
	if ok {
		rest, ok = k.c.take(rest, &c)
	}
	return a, b, c, ok && len(rest) == 0
}

func (k *kind3[A, B, C]) Under(a A) store.Range {
	return PrefixRange(k.a.append([]byte(k.prefix), a))
}

func (k *kind3[A, B, C]) Under2(a A, b B) store.Range {
	return PrefixRange(k.b.append(k.a.append([]byte(k.prefix), a), b))
}

// kind4 is a kind with four parts in its keys.
type kind4[A, B, C, D any] struct {
	kind
	a part[A]
	b part[B]
	c part[C]
	d part[D]
}

func key4[A, B, C, D any](name, prefix string, a part[A], b part[B], c part[C], d part[D],
	doc string) *kind4[A, B, C, D] {
	k := &kind4[A, B, C, D]{kind{Name: name, prefix: prefix, doc: doc}, a, b, c, d}
	return declare(k, a.keyPart, b.keyPart, c.keyPart, d.keyPart)
}

func (k *kind4[A, B, C, D]) Key(a A, b B, c C, d D) []byte {
	key := append(make([]byte, 0, len(k.prefix)+k.a.room(a)+k.b.room(b)+k.c.room(c)+k.d.room(d)), k.prefix...)
	key = k.a.append(key, a)
	key = k.b.append(key, b)
	key = k.c.append(key, c)
	return k.d.append(key, d)
}

func (k *kind4[A, B, C, D]) Split(key []byte) (a A, b B, c C, d D, ok bool) {
	rest, ok := k.cut(key)
	if ok {
		rest, ok = k.a.take(rest, &a)
	}
	if ok {
		rest, ok = k.b.take(rest, &b)
	}
	if ok {
		rest, ok = k.c.take(rest, &c)
	}
	if ok {
		rest, ok = k.d.take(rest, &d)
	}
	return a, b, c, d, ok && len(rest) == 0
}

func (k *kind4[A, B, C, D]) Under(a A) store.Range {
	return PrefixRange(k.a.append([]byte(k.prefix), a))
}

func (k *kind4[A, B, C, D]) Under2(a A, b B) store.Range {
	return PrefixRange(k.b.append(k.a.append([]byte(k.prefix), a), b))
}

func (k *kind4[A, B, C, D]) Under3(a A, b B, c C) store.Range {
	return PrefixRange(k.c.append(k.b.append(k.a.append([]byte(k.prefix), a), b), c))
}

// kind5 is a kind with five parts in its keys.
type kind5[A, B, C, D, E any] struct {
	kind
	a part[A]
	b part[B]
	c part[C]
	d part[D]
	e part[E]
}

func key5[A, B, C, D, E any](name, prefix string, a part[A], b part[B], c part[C], d part[D], e part[E],
	doc string) *kind5[A, B, C, D, E] {
	k := &kind5[A, B, C, D, E]{kind{Name: name, prefix: prefix, doc: doc}, a, b, c, d, e}
	return declare(k, a.keyPart, b.keyPart, c.keyPart, d.keyPart, e.keyPart)
}

func (k *kind5[A, B, C, D, E]) Key(a A, b B, c C, d D, e E) []byte {
	n := len(k.prefix) + k.a.room(a) + k.b.room(b) + k.c.room(c) + k.d.room(d) + k.e.room(e)
	key := append(make([]byte, 0, n), k.prefix...)
	key = k.a.append(key, a)
	key = k.b.append(key, b)
	key = k.c.append(key, c)
	key = k.d.append(key, d)
	return k.e.append(key, e)
}

func (k *kind5[A, B, C, D, E]) Split(key []byte) (a A, b B, c C, d D, e E, ok bool) {
	rest, ok := k.cut(key)
	if ok {
		rest, ok = k.a.take(rest, &a)
	}
	if ok {
		rest, ok = k.b.take(rest, &b)
	}
	if ok {
		rest, ok = k.c.take(rest, &c)
	}
	if ok {
		rest, ok = k.d.take(rest, &d)
	}
	if ok {
		rest, ok = k.e.take(rest, &e)
	}
	return a, b, c, d, e, ok && len(rest) == 0
}

func (k *kind5[A, B, C, D, E]) Under(a A) store.Range {
	return PrefixRange(k.a.append([]byte(k.prefix), a))
}

func (k *kind5[A, B, C, D, E]) Under2(a A, b B) store.Range {
	return PrefixRange(k.b.append(k.a.append([]byte(k.prefix), a), b))
}

func (k *kind5[A, B, C, D, E]) Under3(a A, b B, c C) store.Range {
	return PrefixRange(k.c.append(k.b.append(k.a.append([]byte(k.prefix), a), b), c))
}

func (k *kind5[A, B, C, D, E]) Under4(a A, b B, c C, d D) store.Range {
	return PrefixRange(k.d.append(k.c.append(k.b.append(k.a.append([]byte(k.prefix), a), b), c), d))
}

// group covers the records of several kinds whose keys begin alike.
type group[A any] struct {
	prefix string
	a      part[A]
}

func (g *group[A]) All() store.Range { return PrefixRange([]byte(g.prefix)) }

func (g *group[A]) Under(a A) store.Range { return PrefixRange(g.a.append([]byte(g.prefix), a)) }
