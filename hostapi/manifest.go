package hostapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// parseManifest reads a manifest, refuses unknown fields, and checks that every default obeys its own rules.
func parseManifest(raw []byte) (plan.Manifest, error) {
	var m plan.Manifest
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, err
	}
	if _, err := d.Token(); err != io.EOF {
		return m, fmt.Errorf("more follows after the JSON object")
	}
	if err := checkABI(m.ABI); err != nil {
		return m, err
	}
	if len(m.Hooks) == 0 {
		return m, fmt.Errorf("hooks is missing or empty")
	}
	for _, hook := range m.Hooks {
		if hook != hookAssemble {
			return m, fmt.Errorf("hook %q is unknown; mneme/%d.%d has %q", hook, abiMajor, abiMinor, hookAssemble)
		}
	}
	return m, m.Check()
}

func checkABI(version string) error {
	if version == "" {
		return fmt.Errorf("abi is missing")
	}
	major, minor, _ := strings.Cut(version, ".")
	a, errA := strconv.ParseUint(major, 10, 16)
	b, errB := strconv.ParseUint(minor, 10, 16)
	if errA != nil || errB != nil {
		return fmt.Errorf("abi %q is not MAJOR.MINOR", version)
	}
	return checkVersion(uint32(a<<16 | b))
}

// checkVersion says whether this host speaks an ABI version, packed as by mneme_abi.
func checkVersion(v uint32) error {
	if v>>16 != abiMajor || v&0xffff > abiMinor {
		return fmt.Errorf("abi %d.%d is not spoken here; this host speaks %d.0 to %d.%d",
			v>>16, v&0xffff, abiMajor, abiMajor, abiMinor)
	}
	return nil
}
