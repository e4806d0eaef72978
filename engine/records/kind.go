package records

import (
	"bytes"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// SystemTenant is the space of records that belong to no tenant. No tenant may have this id.
const SystemTenant = "!system"

// Kind is one kind of stored records, independent of the parts of its keys.
type Kind interface {
	// Name returns the kind's name in reports of Verify and in docs/STORAGE.md.
	Name() string
	// Is reports whether a key is of the kind.
	Is(key []byte) bool
	// All covers the kind's records, and those of other kinds whose keys begin with the same prefix.
	All() store.Range
	base() *kind
}

// Kinds lists every kind in the order of its declaration in kinds.go.
var Kinds []Kind

// space says in which spaces records of a kind may be.
type space uint8

const (
	inTenant space = iota
	inSystem
	inBoth
)

// kind holds what all kinds have in common: how a key is made of parts, in which space such a key may be, and what is
// stored under it. kind0 to kind5 add what depends on the types of the parts.
type kind struct {
	name   string
	prefix string
	doc    string
	parts  []keyPart
	in     space
	length store.Length // the length of its values
}

// declare adds a kind to Kinds.
func declare[K Kind](k K) K {
	Kinds = append(Kinds, k)
	return k
}

// system restricts a kind to the system space.
func system[K Kind](k K) K { k.base().in = inSystem; return k }

// both allows a kind in the system space and in the spaces of tenants.
func both[K Kind](k K) K { k.base().in = inBoth; return k }

// once allows values of any length, and says that no value ever replaces another.
func once[K Kind](k K) K { k.base().length = store.Once; return k }

// rewritten allows values of any length that may be replaced.
func rewritten[K Kind](k K) K { k.base().length = store.Rewritten; return k }

func (k *kind) base() *kind { return k }

func (k *kind) Name() string { return k.name }

func (k *kind) Is(key []byte) bool {
	rest, ok := k.cut(key)
	for i := range k.parts {
		if ok {
			rest, ok = k.parts[i].skip(rest)
		}
	}
	return ok && len(rest) == 0
}

// cut removes the prefix from a key.
func (k *kind) cut(key []byte) (rest []byte, ok bool) { return bytes.CutPrefix(key, []byte(k.prefix)) }

func (k *kind) All() store.Range { return PrefixRange([]byte(k.prefix)) }

// liesIn reports whether records of the kind may be in the space of a tenant.
func (k *kind) liesIn(tenant string) bool {
	return k.in == inBoth || k.in == inSystem == (tenant == SystemTenant)
}

// KindOf returns the kind of a key in the space of a tenant, or nil if there is none.
func KindOf(tenant string, key []byte) Kind {
	for _, k := range Kinds {
		if k.base().liesIn(tenant) && k.Is(key) {
			return k
		}
	}
	return nil
}

// nameOf returns the name of a key's kind for use in errors. The key itself must not appear in them, because keys
// contain clients' names.
func nameOf(tenant string, key []byte) string {
	if k := KindOf(tenant, key); k != nil {
		return k.Name()
	}
	return "of no kind"
}

// lengths returns a function that tells the length of a key's values. Because it is called for every key that is
// written, it only checks the kinds with long values, by the first byte of their keys.
func lengths() func(key []byte) store.Length {
	var long [256][]*kind
	for _, k := range Kinds {
		if k := k.base(); k.length != store.Plain {
			long[k.prefix[0]] = append(long[k.prefix[0]], k)
		}
	}
	return func(key []byte) store.Length {
		if len(key) > 0 {
			for _, k := range long[key[0]] {
				if k.Is(key) {
					return k.length
				}
			}
		}
		return store.Plain
	}
}

// maxPiece is the size of the longest piece of a long value, in bytes. It leaves space for the seal, so that every
// record can be copied as it is stored.
const maxPiece = store.MaxValue - 64

// LongValues wraps a sealed store so that values may have any length under the keys of the kinds that allow it.
func LongValues(sealed store.Store) store.Store { return store.Long(sealed, lengths(), maxPiece) }

// PrefixRange covers all keys that begin with prefix.
func PrefixRange(prefix []byte) store.Range {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return store.Range{From: prefix, To: end[:i+1]}
		}
	}
	return store.Range{From: prefix}
}
