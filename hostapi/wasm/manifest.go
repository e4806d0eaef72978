package wasm

// Manifest returns the manifest of a module without checking the rest of it; nil if it has none. It returns an error if
// code is not a module.
func Manifest(code []byte) ([]byte, error) {
	m := &module{meter: new(meter)}
	m.split(code)
	if m.meter.err != nil {
		return nil, m.meter.err
	}
	return m.manifest, nil
}
