package wasm

// Manifest returns the manifest of a module without looking at the rest of it; nil if it has none. It answers an error
// for bytes that are no module.
func Manifest(code []byte) ([]byte, error) {
	m := &module{meter: new(meter)}
	m.split(code)
	if m.meter.err != nil {
		return nil, m.meter.err
	}
	return m.manifest, nil
}
