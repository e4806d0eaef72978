package chat

import "strconv"

// anthropicRun is the message that is being put together in Anthropic's format, which joins neighbours of one role to
// one message. A run of a single message keeps its posted bytes, so the first is held back until the next one is known.
type anthropicRun struct {
	role string
	held *Fragment // the run's only message so far, not yet written
	from int       // where the run's blocks begin in the buffer, once they are being written

	names   []string // the names in the window of the newest fragment's ids
	renamed bool     // some name differs from its id

	latest map[string]string   // by a call's id: the name of the newest call with that id
	taken  map[string]struct{} // the names of the calls in the window
}

func (r *anthropicRun) reset() {
	clear(r.latest)
	clear(r.taken)
	r.role, r.held = "", nil
}

// add adds a message to the run, or ends the run and begins the next.
func (r *anthropicRun) add(b *Builder, fr *Fragment, seq uint64) {
	role := anthropicRole(fr.role)
	if role == r.role {
		if r.held != nil {
			r.open(b)
		}
		r.resolve(fr, seq)
		r.write(b, fr)
		return
	}
	r.end(b)
	if r.role == "" && role != "user" {
		b.buf = append(AppendString(appendRole(b.buf, "user"), Placeholder), '}')
		b.rendered++
	}
	b.separate(b.start+1, ',')
	r.role, r.held = role, fr
	r.resolve(fr, seq)
}

// open begins a message of blocks with those of the message held.
func (r *anthropicRun) open(b *Builder) {
	b.buf = append(appendRole(b.buf, r.role), '[')
	r.from = len(b.buf)
	r.write(b, r.held)
	r.held = nil
}

// end ends the run, if there is one.
func (r *anthropicRun) end(b *Builder) {
	if r.role == "" {
		return
	}
	b.rendered++
	if r.held != nil && !r.renamed && len(r.held.bytes) > 0 {
		b.buf = append(b.buf, r.held.bytes...)
		r.held = nil
		return
	}
	if r.held != nil {
		r.open(b)
	}
	if len(b.buf) == r.from {
		b.buf = appendTextPart(b.buf, "text", Placeholder)
	}
	b.buf = append(b.buf, "]}"...)
}

// write adds a fragment's blocks under the names of its calls.
func (r *anthropicRun) write(b *Builder, fr *Fragment) {
	if len(fr.blocks) == 0 {
		return
	}
	b.separate(r.from, ',')
	copied := 0
	for i := range fr.ids {
		id := &fr.ids[i]
		if r.names[i] != id.id {
			b.buf = append(b.buf, fr.blocks[copied:id.start]...)
			b.buf = AppendString(b.buf, r.names[i])
			copied = id.end
		}
	}
	b.buf = append(b.buf, fr.blocks[copied:]...)
}

// resolve finds the names of a fragment's ids.
func (r *anthropicRun) resolve(fr *Fragment, seq uint64) {
	r.names, r.renamed = r.names[:0], false
	for i := range fr.ids {
		id := &fr.ids[i]
		name, known := r.latest[id.id]
		if id.call {
			name = r.claim(id.id, seq)
		} else if !known {
			name = legalID(id.id)
		}
		r.names = append(r.names, name)
		r.renamed = r.renamed || name != id.id
	}
}

// claim gives a call a name that no other call of the window has: its id, where that is free and legal, else the id
// and the number of its message.
func (r *anthropicRun) claim(id string, seq uint64) string {
	if r.taken == nil {
		r.taken, r.latest = map[string]struct{}{}, map[string]string{}
	}
	name := id
	if r.isTaken(id) || legalID(id) != id {
		name = legalID(id) + "_" + strconv.FormatUint(seq, 10)
		for r.isTaken(name) {
			name += "_"
		}
	}
	r.taken[name] = struct{}{}
	r.latest[id] = name
	return name
}

func (r *anthropicRun) isTaken(name string) bool {
	_, taken := r.taken[name]
	return taken
}

// legalID replaces what Anthropic does not take in a call's id: it takes A-Z, a-z, 0-9, _ and -.
func legalID(id string) string {
	for i := range len(id) {
		if !legalIDByte(id[i]) {
			legal := []byte(id)
			for j := i; j < len(legal); j++ {
				if !legalIDByte(legal[j]) {
					legal[j] = '_'
				}
			}
			return string(legal)
		}
	}
	return id
}

func legalIDByte(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}
