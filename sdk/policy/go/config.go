package mneme

import (
	"math"
	"unsafe"
)

const (
	configInteger = 1
	configFloat   = 2
	configBoolean = 3
	configString  = 4
)

// ConfigInt returns an integer setting, or absent if there is no integer with that name.
func (q *Request) ConfigInt(key string, absent int64) int64 {
	if e := q.setting(key); e != nil && e.kind == configInteger {
		return int64(e.value)
	}
	return absent
}

// ConfigFloat returns a number setting, which may be given as an integer, or absent.
func (q *Request) ConfigFloat(key string, absent float64) float64 {
	switch e := q.setting(key); {
	case e == nil:
		return absent
	case e.kind == configFloat:
		return math.Float64frombits(e.value)
	case e.kind == configInteger:
		return float64(int64(e.value))
	}
	return absent
}

// ConfigBool returns a boolean setting, or absent.
func (q *Request) ConfigBool(key string, absent bool) bool {
	if e := q.setting(key); e != nil && e.kind == configBoolean {
		return e.value != 0
	}
	return absent
}

// ConfigString returns a string setting, or absent.
func (q *Request) ConfigString(key, absent string) string {
	if e := q.setting(key); e != nil && e.kind == configString {
		return q.view(uint32(e.value), e.textLen)
	}
	return absent
}

func (q *Request) setting(key string) *configEntry {
	at := unsafe.Add(unsafe.Pointer(q.preamble), uintptr(q.configAt))
	for i := range uintptr(q.configCount) {
		if e := (*configEntry)(unsafe.Add(at, i*configEntrySize)); q.view(e.keyAt, e.keyLen) == key {
			return e
		}
	}
	return nil
}
