package mneme

import "unsafe"

// Text is a text in a plan: a reason, or the text of an INSERT or REPLACE. One Text can be used by many ops.
//
// A reason is a code, or a code and free text, such as `too_old: from before the release`, of at most MaxReason bytes.
type Text struct {
	plan       *Plan
	at, length uint32
}

// Text writes a text into the plan.
func (p *Plan) Text(words string) Text {
	return Text{plan: p, at: uint32(p.textEnd)}.Str(words)
}

// Str returns the text continued with more words. Only the newest text of a plan can be continued.
//
//go:noinline
func (t Text) Str(words string) Text {
	p := t.plan
	if int(t.at+t.length) != p.textEnd {
		p.fail(errTextOrder)
		return t
	}
	if len(words) > p.room() {
		p.fail(errPlanFull)
		return t
	}
	p.textEnd += copy(p.mem[p.textEnd:], words)
	t.length += uint32(len(words))
	return t
}

// Uint returns the text continued with a decimal number.
//
//go:noinline
func (t Text) Uint(n uint64) Text {
	var digits [20]byte
	i := len(digits)
	for {
		i--
		digits[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return t.Str(unsafe.String(&digits[i], len(digits)-i))
		}
	}
}

// String returns the text, as a view that is valid until the policy returns.
func (t Text) String() string {
	if t.length == 0 {
		return ""
	}
	return unsafe.String(&t.plan.mem[t.at], int(t.length))
}

// Len returns the length of the text in bytes; 0 for the zero Text, which means an op without a reason.
func (t Text) Len() int { return int(t.length) }
