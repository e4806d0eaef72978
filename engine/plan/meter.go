package plan

// Meter charges a step for the work that the host does for it.
type Meter interface {
	// Spend takes fuel and looks at the clock. Where one of them has run out it answers an error, now and at every
	// later call, and the work is to be given up with that error.
	Spend(fuel int) error
}

// What carrying out a plan costs, in fuel. Counting tokens is charged by the Source, which does it.
const (
	fuelPerItem      = 100 // each record that an op changes, and each op
	textBytesPerFuel = 4   // bytes of text that an op reads; it may have to be fetched and decoded
	fuelPerMadeByte  = 1   // each byte of text that an op puts into the window, once for each record that shows it
)
