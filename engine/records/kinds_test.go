package records

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// value returns a random value of a part's type. Texts contain only letters that are valid in every text.
func value(of reflect.Type, r *rand.Rand) any {
	switch reflect.Zero(of).Interface().(type) {
	case string:
		return string('a'+rune(r.IntN(26))) + strings.Repeat("x", r.IntN(5))
	case []byte:
		return []byte{1, byte(r.Uint32()), 0}
	case time.Time:
		return TimeOf(r.Int64N(1 << 44))
	case byte:
		return "mt"[r.IntN(2)]
	case Stream:
		return Stream{r.Uint64(), r.Uint64()}
	}
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(byte(r.Uint32())))
		}
	default:
		v.SetUint(r.Uint64() >> (64 - of.Bits()))
	}
	return v.Interface()
}

// sample returns a key of a kind with random parts.
func sample(k Kind, r *rand.Rand) (key []byte, parts []any) {
	method := reflect.ValueOf(k).MethodByName("Key")
	var in []reflect.Value
	for i := range method.Type().NumIn() {
		parts = append(parts, value(method.Type().In(i), r))
		in = append(in, reflect.ValueOf(parts[i]))
	}
	return method.Call(in)[0].Bytes(), parts
}

// TestKinds makes keys of every kind: each is split into its parts, and is of that kind only.
func TestKinds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	names := map[string]bool{}
	for _, k := range Kinds {
		base := k.base()
		if names[base.name] || base.doc == "" {
			t.Errorf("kind %q is named twice, or nothing says what it is", base.name)
		}
		names[base.name] = true
		for range 50 {
			key, parts := sample(k, r)
			for _, other := range Kinds {
				if is := other.Is(key); is != (other == k) {
					t.Errorf("the key %q of %s is of %s: %t", key, base.name, other.base().name, is)
				}
			}
			for _, tenant := range []string{"acme", SystemTenant} {
				lies := base.in == inBoth || (base.in == inSystem) == (tenant == SystemTenant)
				if found := KindOf(tenant, key) == k; found != lies {
					t.Errorf("a %s in %q is found: %t", base.name, tenant, found)
				}
			}
			if all := base.All(); bytes.Compare(key, all.From) < 0 || bytes.Compare(key, all.To) >= 0 {
				t.Errorf("All of %s leaves out %q", base.name, key)
			}
			if len(parts) == 0 {
				continue
			}
			split := reflect.ValueOf(k).MethodByName("Split")
			out := split.Call([]reflect.Value{reflect.ValueOf(key)})
			for i, part := range parts {
				if got := out[i].Interface(); !reflect.DeepEqual(got, part) {
					t.Errorf("part %d of a %s was %v, is %v", i, base.name, part, got)
				}
			}
			for _, broken := range [][]byte{nil, key[:len(base.prefix)], append([]byte("?"), key...), key[1:]} {
				if out := split.Call([]reflect.Value{reflect.ValueOf(broken)}); out[len(parts)].Bool() {
					t.Errorf("%q is split as a %s", broken, base.name)
				}
			}
		}
	}
}

// TestKindUnder checks that Under, Under2 and so on cover the keys that begin with these parts.
func TestKindUnder(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, k := range Kinds {
		for n, name := range []string{"Under", "Under2", "Under3", "Under4"} {
			under := reflect.ValueOf(k).MethodByName(name)
			if !under.IsValid() {
				continue
			}
			key, parts := sample(k, r)
			in := make([]reflect.Value, n+1)
			for i := range in {
				in[i] = reflect.ValueOf(parts[i])
			}
			from := under.Call(in)[0].Field(0).Bytes()
			if n == 0 && len(parts) == 2 {
				before := reflect.ValueOf(k).MethodByName("Before").Call(in)[0]
				start, end := before.Field(0).Bytes(), before.Field(1).Bytes()
				if !bytes.Equal(start, k.base().All().From) || !bytes.Equal(end, from) {
					t.Errorf("Before of %s is from %q to %q", k.base().name, start, end)
				}
			}
			if !bytes.HasPrefix(key, from) {
				t.Errorf("%s of %s begins with %q, the key is %q", name, k.base().name, from, key)
			}
		}
	}
}

// TestKeyOrder checks the order of keys on which readers rely.
func TestKeyOrder(t *testing.T) {
	early, late := time.UnixMilli(1_000).UTC(), time.UnixMilli(2_000).UTC()
	p, s := ident.Incarnation{1}, ident.Incarnation{2}
	for name, keys := range map[string][][]byte{
		"expiry: what goes first comes first": {Expiry.Key(early, []byte("z")), Expiry.Key(late, []byte("a"))},
		"audit: the newest comes first":       {Audit.Key(late, [8]byte{9}), Audit.Key(early, [8]byte{})},
		"memories by time: newest first":      {MemoryTime.Key(p, late, "b"), MemoryTime.Key(p, early, "a")},
		"usage: day by day":                   {Usage.Key(255), Usage.Key(256)},
		"a session's records: messages, headers, summary": {Body.Key(s, 255), Body.Key(s, 256),
			Headers.Key(s, 1), Headers.Key(s, 256), Summary.Key(s, 1)},
		"sessions: the shorter id comes first": {Session.Key(p, "a"), Session.Key(p, "a-b"),
			Session.Key(p, "b")},
		"decisions: by day, session and moment": {Decision.Key(p, 1, ident.Incarnation{9}, [14]byte{9}),
			Decision.Key(p, 2, ident.Incarnation{1}, [14]byte{8}), Decision.Key(p, 2, ident.Incarnation{1}, [14]byte{9})},
		"fresh documents: by epoch": {RecallFresh.Key(p, 'm', 1, Stream{0, 9}, 9), RecallFresh.Key(p, 'm', 2, Stream{}, 1)},
		"dead documents: by epoch":  {RecallDead.Key(p, 'm', 1, Stream{0, 9}, 9), RecallDead.Key(p, 'm', 2, Stream{}, 1)},
		"blocks: by namespace":      {RecallBlock.Key(p, 'm', "a", Stream{1, 9}, 9), RecallBlock.Key(p, 'm', "a", Stream{2, 0}, 1)},
		"blocks: by term and place": {RecallBlock.Key(p, 'm', "a", Stream{0, 9}, 9), RecallBlock.Key(p, 'm', "b", Stream{}, 1)},
		"entries by time":           {EntryTime.Key(s, early, 9), EntryTime.Key(s, late, 1)},
	} {
		if !slices.IsSortedFunc(keys, bytes.Compare) {
			t.Errorf("%s: %q", name, keys)
		}
	}
}

// TestKindAllocations counts the allocations for the keys of every turn and window.
func TestKindAllocations(t *testing.T) {
	p, session := ident.Incarnation{1}, "a-session-with-a-name-that-is-longer-than-32-bytes"
	key, length := Session.Key(p, session), lengths()
	for name, c := range map[string]struct {
		most float64
		do   func()
	}{
		"session":  {1, func() { key = Session.Key(p, session) }},
		"headers":  {1, func() { key = Headers.Key(p, 7) }},
		"body":     {1, func() { key = Body.Key(p, 7) }},
		"is":       {0, func() { Body.Is(key) }},
		"length":   {0, func() { length(key) }},
		"body seq": {0, func() { Body.Split(key) }},
	} {
		if got := testing.AllocsPerRun(100, c.do); got > c.most {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

// TestLengths checks that the store gets the lengths of the kinds.
func TestLengths(t *testing.T) {
	r, length, long := rand.New(rand.NewPCG(3, 3)), lengths(), 0
	for _, k := range Kinds {
		key, _ := sample(k, r)
		if got := length(key); got != k.base().length {
			t.Errorf("the length of a %s is %d, want %d", k.base().name, got, k.base().length)
		} else if got != store.Plain {
			long++
		}
	}
	if long != 11 || length(nil) != store.Plain {
		t.Errorf("%d kinds have long values", long)
	}
}
