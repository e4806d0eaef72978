package hostapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// Limits of a manifest. They are checked before it is decoded, because decoding may take twenty times its size. A
// manifest may have 256 KiB of tests, which package lab limits, and needs far less for everything else.
const (
	maxManifestBytes   = 512 << 10
	maxManifestValues  = 50_000
	maxManifestNesting = 128
	maxSettings        = 256
)

// limitManifest refuses a manifest that would take too much memory once it is decoded.
func limitManifest(raw []byte) *plan.Refusal {
	over := func(found, limit int, of string) *plan.Refusal {
		return &plan.Refusal{Check: checkManifest, Found: int64(found), Limit: int64(limit),
			Detail: fmt.Sprintf("%d %s, at most %d are possible", found, of, limit)}
	}
	if len(raw) > maxManifestBytes {
		return over(len(raw), maxManifestBytes, "bytes")
	}
	values, deepest := extent(raw)
	if values > maxManifestValues {
		return over(values, maxManifestValues, "values")
	}
	if deepest > maxManifestNesting {
		return over(deepest, maxManifestNesting, "levels of nesting")
	}
	return nil
}

// extent counts the values in a JSON text, and returns how deep they are nested. Every value but the first of a list or
// an object follows a comma, so a text has at most one more value than it has commas and brackets.
func extent(raw []byte) (values, deepest int) {
	values = 1
	nested, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch b := raw[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '[' || b == '{':
			values++
			nested++
			deepest = max(deepest, nested)
		case b == ']' || b == '}':
			nested--
		case b == ',':
			values++
		}
	}
	return values, deepest
}

// Manifest returns what a module says about itself, without admitting it.
func (h *Host) Manifest(code []byte) (plan.Manifest, error) {
	raw, err := wasm.Manifest(code)
	if err != nil {
		return plan.Manifest{}, err
	}
	return parseManifest(raw)
}

// parseManifest parses a manifest, refuses unknown fields, and checks that every default obeys its own rules.
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
	if len(m.Schema) > maxSettings {
		return m, fmt.Errorf("config has %d settings, at most %d are possible", len(m.Schema), maxSettings)
	}
	if len(m.Hooks) == 0 {
		return m, fmt.Errorf("hooks is missing or empty")
	}
	if err := checkHooks(m.Hooks, m.ABI); err != nil {
		return m, err
	}
	return m, m.Check()
}

// checkHooks returns an error if a version of the ABI does not have one of the hooks.
func checkHooks(names []string, abi string) error {
	version, err := parseVersion(abi)
	if err != nil {
		return err
	}
	for _, name := range names {
		hook, ok := plan.HookNamed(name)
		if !ok {
			return fmt.Errorf("hook %q is unknown; mneme/%d.%d has %s", name, abiMajor, abiMinor, hookNames())
		}
		if !hook.Assembles() && version&minorMask < hooksSince {
			return fmt.Errorf("hook %q is of mneme/%d.%d, and abi is %s", name, abiMajor, hooksSince, abi)
		}
	}
	return nil
}

// hookNames lists the names of all hooks as text.
func hookNames() string {
	var names []string
	for _, h := range plan.Hooks() {
		names = append(names, h.String())
	}
	return strings.Join(names, ", ")
}

func checkABI(version string) error {
	if version == "" {
		return fmt.Errorf("abi is missing")
	}
	v, err := parseVersion(version)
	if err != nil {
		return err
	}
	return checkVersion(v)
}

// minorMask selects the minor version in a packed version.
const minorMask = 1<<16 - 1

// parseVersion packs a version like mneme_abi.
func parseVersion(version string) (uint32, error) {
	major, minor, _ := strings.Cut(version, ".")
	a, errA := strconv.ParseUint(major, 10, 16)
	b, errB := strconv.ParseUint(minor, 10, 16)
	if errA != nil || errB != nil {
		return 0, fmt.Errorf("abi %q is not MAJOR.MINOR", version)
	}
	return uint32(a<<16 | b), nil
}

// checkVersion returns an error if this host does not support an ABI version, packed as by mneme_abi.
func checkVersion(v uint32) error {
	if v>>16 != abiMajor || v&minorMask > abiMinor {
		return fmt.Errorf("abi %d.%d is not spoken here; this host speaks %d.0 to %d.%d",
			v>>16, v&minorMask, abiMajor, abiMajor, abiMinor)
	}
	return nil
}
