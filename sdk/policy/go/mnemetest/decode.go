package mnemetest

import (
	"encoding/binary"
	"errors"
	"fmt"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// Op is one instruction of a plan.
type Op struct {
	Code        mneme.OpCode
	Template    uint8
	First, Last int // record indexes, inclusive
	Text        string
	Reason      string
	Argument    uint32
}

func (o Op) String() string {
	return fmt.Sprintf("%d %d..%d %q %q", o.Code, o.First, o.Last, o.Text, o.Reason)
}

const (
	planHeaderSize = 16
	opSize         = 32
)

// Decode decodes a plan. Empty input is a plan without ops.
func Decode(plan []byte) ([]Op, error) {
	if len(plan) == 0 {
		return nil, nil
	}
	if len(plan) < planHeaderSize || string(plan[:4]) != "MNP1" {
		return nil, errors.New("mnemetest: not a plan")
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(plan[at:]) }
	count, opsAt, size := uint64(word(4)), uint64(word(8)), uint64(word(12))
	if size < opSize || opsAt < planHeaderSize || opsAt+count*size > uint64(len(plan)) {
		return nil, errors.New("mnemetest: ops outside the plan")
	}
	span := func(at int) (string, error) {
		start, length := uint64(word(at)), uint64(word(at+4))
		if start+length > uint64(len(plan)) {
			return "", errors.New("mnemetest: text outside the plan")
		}
		return string(plan[start : start+length]), nil
	}
	ops := make([]Op, count)
	for i := range ops {
		at := int(opsAt + uint64(i)*size)
		text, errText := span(at + 12)
		reason, errReason := span(at + 20)
		if err := errors.Join(errText, errReason); err != nil {
			return nil, err
		}
		ops[i] = Op{
			Code: mneme.OpCode(plan[at]), Template: plan[at+1], First: int(word(at + 4)), Last: int(word(at + 8)),
			Text: text, Reason: reason, Argument: word(at + 28),
		}
	}
	return ops, nil
}
