package render

import "github.com/seed-0906e6bc/mneme/engine/message/rawjson"

// anthropicRun is the message being assembled in Anthropic's format, which joins consecutive messages of one role. A
// run of a single message keeps its posted bytes, so the first one is held back until the next one is known.
type anthropicRun struct {
	role string
	held *Fragment // the only message of the run so far, not written yet
	from int       // start of the run's blocks in the buffer, once they are being written

	ids  windowIDs
	edit edit // changes to the newest fragment's blocks
}

func (r *anthropicRun) reset() {
	r.ids.reset(legalID)
	r.role, r.held = "", nil
}

// add adds a message to the run, or ends the run and starts the next one.
func (r *anthropicRun) add(b *Builder, fr *Fragment, seq uint64) {
	role := AnthropicRole(fr.Role)
	if role == r.role {
		if r.held != nil {
			r.open(b)
		}
		r.ids.resolve(fr, seq)
		b.note(fr, &r.ids, b.rendered)
		r.write(b, fr)
		return
	}
	r.end(b)
	if r.role == "" && role != "user" && !fr.Compacts {
		b.buf = append(rawjson.AppendString(AppendRole(b.buf, "user"), Placeholder), '}')
		b.filler("user")
		b.rendered++
	}
	b.separate(b.start+1, ',')
	r.role, r.held = role, fr
	r.ids.resolve(fr, seq)
	b.note(fr, &r.ids, b.rendered)
}

// open begins a message of blocks with those of the message held.
func (r *anthropicRun) open(b *Builder) {
	b.buf = append(AppendRole(b.buf, r.role), '[')
	r.from = len(b.buf)
	r.write(b, r.held)
	r.held = nil
}

// end ends the run, if there is one.
func (r *anthropicRun) end(b *Builder) {
	if r.role == "" {
		return
	}
	defer func() { b.rendered++ }()
	if r.held != nil && !r.edit.changed && len(r.held.Bytes) > 0 {
		b.room(len(r.held.Bytes))
		b.buf = append(b.buf, r.held.Bytes...)
		r.held = nil
		return
	}
	if r.held != nil {
		r.open(b)
	}
	if len(b.buf) == r.from {
		b.buf = AppendTextPart(b.buf, "text", Placeholder)
		b.filler(r.role)
	}
	b.buf = append(b.buf, "]}"...)
}

// write appends a fragment's blocks, edited as the window requires.
func (r *anthropicRun) write(b *Builder, fr *Fragment) {
	if !r.edit.changed {
		if len(fr.Blocks) > 0 {
			b.separate(r.from, ',')
			b.buf = append(b.buf, fr.Blocks...)
		}
		return
	}
	for i := range fr.Parts {
		p := &fr.Parts[i]
		if !r.edit.dropped(i) {
			b.separate(r.from, ',')
			b.buf = r.edit.apply(b.buf, fr.Blocks, int(p.Start), int(p.End))
		}
	}
}
