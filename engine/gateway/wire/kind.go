package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

// kindHead is the number of bytes of a system prompt that distinguish programs. Dates and lists of files come later.
const kindHead = 64

// Kind distinguishes the calls of different programs: it is a hash of the names of the tools and of the beginning of
// the system prompt. The calls of one conversation have one kind; a call for its title has another.
func (b *Body) Kind() string {
	var names []string
	for _, raw := range b.Tools {
		o, _, _ := rawjson.ReadObject(raw)
		name := o.Text("name")
		if f := o.Get("function"); rawjson.IsObject(f) {
			inner, _, _ := rawjson.ReadObject(f)
			name = inner.Text("name")
		}
		names = append(names, name)
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		_, _ = sum.Write(append([]byte(name), 0))
	}
	if p, err := render.ParseSystem(b.HeadText()); err == nil {
		_, _ = sum.Write([]byte(p.Text[:min(len(p.Text), kindHead)]))
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
