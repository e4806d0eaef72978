package decision

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// What is appended by hand is what encoding/json writes: the same members with the same values in the same order, for
// records, rows, usages and steps whose members are absent, empty or anything.
func TestDecisionsAreEncodedAsJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var r Record
		var row Row
		anything(random, reflect.ValueOf(&r).Elem())
		anything(random, reflect.ValueOf(&row).Elem())
		r.Request = json.RawMessage(`{"viewer":{"agent":"<main>"}}`)
		b, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		same(t, b, r)
		if b, err = row.encode(); err != nil {
			t.Fatal(err)
		}
		same(t, b, storedRow(row))
		same(t, r.Usage.Append(nil), r.Usage)
		same(t, AppendSteps(nil, r.Steps), r.Steps)
	}
}

// same holds appended JSON against that of encoding/json, but for how texts are escaped.
func same(t *testing.T, appended []byte, v any) {
	t.Helper()
	plain, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	want, err1 := tokens(plain)
	got, err2 := tokens(appended)
	if err1 != nil || err2 != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\nis appended, encoding/json writes\n%s\n%v, %v", appended, plain, err1, err2)
	}
}

func tokens(b []byte) (all []json.Token, err error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			if dec.More() || len(all) == 0 {
				return all, err
			}
			return all, nil
		}
		all = append(all, token)
	}
}

// anything sets a value and what it holds; each part may also stay zero.
func anything(random *rand.Rand, v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.UnixMilli(random.Int64N(2e12)).UTC()))
		return
	}
	if v.Kind() != reflect.Struct && random.IntN(4) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				anything(random, v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		anything(random, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), random.IntN(3), 3))
		for i := range v.Len() {
			anything(random, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			anything(random, v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		anything(random, key)
		anything(random, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		all := []string{"", "a", "\"\\\n\r\t\b\x00", "<&>", "ä\u2028", strings.Repeat("x", 99), "\xff"}
		v.SetString(all[random.IntN(len(all))])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(random.Float64())
	case reflect.Int, reflect.Int64:
		v.SetInt(random.Int64() - random.Int64())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(random.Uint64() >> (64 - v.Type().Bits()))
	}
}
