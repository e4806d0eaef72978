package plan

// Meter charges a step for the work that the host does for it.
type Meter interface {
	// Spend takes fuel and checks the time. Once either has run out, it returns an error, now and at every later call.
	// The caller must then stop with that error.
	Spend(fuel int) error
}

// What executing a plan costs, in fuel. The Source charges for counting tokens.
const (
	fuelPerItem      = 100 // each record that an op changes, and each op
	textBytesPerFuel = 4   // bytes of text that an op reads, which may have to be loaded and decoded
	fuelPerMadeByte  = 1   // each byte of text that an op adds to the window, once for each record that shows it
)
