package render

import (
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/message/callid"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// windowIDs makes the ids of the calls in one window unique, for formats that do not allow an id to repeat. A call and
// its results get the same id.
type windowIDs struct {
	legal func(string) string // turns an id into one that the format allows

	names   []string // the newest fragment's ids as the window shows them
	renamed bool     // some name differs from its id

	latest map[string]string   // by a call's id: the name of the newest call with that id
	taken  map[string]struct{} // the names of the calls in the window
}

func (w *windowIDs) reset(legal func(string) string) {
	w.legal = legal
	clear(w.latest)
	clear(w.taken)
}

// resolve determines the names of a fragment's ids. seq is the number of the message that makes the calls.
func (w *windowIDs) resolve(fr *Fragment, seq uint64) {
	w.names, w.renamed = w.names[:0], false
	for i := range fr.IDs {
		id := &fr.IDs[i]
		name, known := w.latest[id.ID]
		if id.Call {
			name = w.claim(id.ID, seq)
		} else if !known {
			name = w.legal(id.ID)
		}
		w.names = append(w.names, name)
		w.renamed = w.renamed || name != id.ID
	}
}

// claim returns a name for a call that no other call of the window has: its id if that is unused and legal, and
// otherwise the id and the number of its message.
func (w *windowIDs) claim(id string, seq uint64) string {
	if w.taken == nil {
		w.taken, w.latest = map[string]struct{}{}, map[string]string{}
	}
	name := id
	if w.isTaken(id) || w.legal(id) != id {
		name = w.legal(w.legal(id) + "_" + strconv.FormatUint(seq, 10))
		for w.isTaken(name) {
			name = w.legal(name + "_")
		}
	}
	w.taken[name] = struct{}{}
	w.latest[id] = name
	return name
}

func (w *windowIDs) isTaken(name string) bool {
	_, taken := w.taken[name]
	return taken
}

// append appends a fragment's JSON with the names of its ids, which resolve has just determined.
func (w *windowIDs) append(dst []byte, fr *Fragment, json []byte) []byte {
	copied := 0
	for i := range fr.IDs {
		id := &fr.IDs[i]
		if w.names[i] != id.ID {
			dst = append(dst, json[copied:id.Start]...)
			dst = rawjson.AppendString(dst, w.names[i])
			copied = id.End
		}
	}
	return append(dst, json[copied:]...)
}

// shortID turns an id into one that Responses allow.
func shortID(id string) string { return callid.Short(id, callid.MostInResponses) }

// legalID replaces characters in a call's id that Anthropic does not allow: it allows A-Z, a-z, 0-9, _ and -.
func legalID(id string) string {
	for i := range len(id) {
		if !callid.LegalByte(id[i]) {
			legal := []byte(id)
			for j := i; j < len(legal); j++ {
				if !callid.LegalByte(legal[j]) {
					legal[j] = '_'
				}
			}
			return string(legal)
		}
	}
	return id
}
