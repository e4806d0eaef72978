package plan

// Memory that things use besides their texts, in bytes: a map entry with its setting, a slice header with the
// allocator's rounding, a check.
const (
	settingWeight = 256
	textWeight    = 48
	checkWeight   = 96
)

// Weight estimates the memory that a policy's manifest and checks use, in bytes.
func (p *Policy) Weight() int {
	m := &p.Manifest
	n := len(m.ABI) + len(m.Name) + len(m.Version) + len(m.Description)
	for _, hook := range m.Hooks {
		n += len(hook) + textWeight
	}
	for key, s := range m.Schema {
		n += settingWeight + len(key) + len(s.Default) + len(s.Description)
		for _, e := range s.Enum {
			n += len(e) + textWeight
		}
	}
	for _, test := range m.Tests {
		n += len(test) + textWeight
	}
	for _, c := range p.Checks {
		n += len(c.Detail) + checkWeight
	}
	return n
}
