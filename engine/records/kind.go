package records

import (
	"bytes"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// SystemTenant is the space of what belongs to no tenant. No client may choose an id with a "!".
const SystemTenant = "!system"

// Kind is one kind of stored records, whatever parts its keys have.
type Kind interface {
	// Name is the kind's name in reports of Verify and in docs/STORAGE.md.
	Name() string
	// Is tells whether a key is of the kind.
	Is(key []byte) bool
	// All covers the kind's records. Where other kinds' keys begin with the same prefix, it covers these too.
	All() store.Range
	base() *kind
}

// Kinds lists every kind in the order of its declaration in kinds.go.
var Kinds []Kind

// space says in which spaces records of a kind may lie.
type space uint8

const (
	inTenant space = iota
	inSystem
	inBoth
)

// kind is what all kinds have in common: how a key is made of parts, where such a key may lie, and what is stored under
// it. kind0 to kind5 add what depends on the types of the parts.
type kind struct {
	name   string
	prefix string
	doc    string
	parts  []keyPart
	in     space
	length store.Length // what its values may be
}

// declare puts a kind into the list.
func declare[K Kind](k K) K {
	Kinds = append(Kinds, k)
	return k
}

// system makes a kind lie in the system space alone.
func system[K Kind](k K) K { k.base().in = inSystem; return k }

// both makes a kind lie in the system space and in the spaces of tenants.
func both[K Kind](k K) K { k.base().in = inBoth; return k }

// once lets values have any length, and says that no value is ever put over another one.
func once[K Kind](k K) K { k.base().length = store.Once; return k }

// rewritten lets values have any length, and be put over others.
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

// cut takes the prefix off a key.
func (k *kind) cut(key []byte) (rest []byte, ok bool) { return bytes.CutPrefix(key, []byte(k.prefix)) }

func (k *kind) All() store.Range { return PrefixRange([]byte(k.prefix)) }

// liesIn tells whether the kind may lie in the space of a tenant.
func (k *kind) liesIn(tenant string) bool {
	return k.in == inBoth || k.in == inSystem == (tenant == SystemTenant)
}

// KindOf finds the kind of a key in the space of a tenant, or nil where there is none.
func KindOf(tenant string, key []byte) Kind {
	for _, k := range Kinds {
		if k.base().liesIn(tenant) && k.Is(key) {
			return k
		}
	}
	return nil
}

// nameOf is the name of a key's kind, for errors: the key itself stays out of them, because keys hold clients' names.
func nameOf(tenant string, key []byte) string {
	if k := KindOf(tenant, key); k != nil {
		return k.Name()
	}
	return "of no kind"
}

// lengths tells what the values of a key may be. It asks only the kinds of long values, by the first byte of their
// keys, because it is asked for every key that is written.
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

// maxPiece is the longest piece of a long value, in bytes. It leaves room for the seal, so that every record can be
// copied as it lies.
const maxPiece = store.MaxValue - 64

// LongValues makes a sealed store take values of any length under the keys of the kinds that may have them.
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
