package transcript

import (
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// maxSources is the maximum number of records of another program's file that one message joins.
const maxSources = 4096

// checkSources returns too_many or invalid_id for source ids that cannot be stored.
func checkSources(ids []string) error {
	if len(ids) > maxSources {
		return fault.InvalidField("source_ids", "too_many", "there are %d, and the limit is %d", len(ids), maxSources)
	}
	for _, id := range ids {
		if !ident.ValidID(id) {
			return fault.InvalidField("source_ids", "invalid_id", "each "+ident.IDRule)
		}
	}
	return nil
}

// name notes the source ids of the message at an index.
func (t *Turn) name(at int, ids []string) {
	if t.sources == nil {
		t.sources = map[int][]string{}
	}
	t.sources[at] = ids
}

// copyName gives the turn's next message the source ids of a message of another turn.
func (t *Turn) copyName(from *Turn, at int) {
	if ids := from.sources[at]; ids != nil {
		t.name(len(t.Messages), ids)
	}
}

// appendSources encodes source ids: their number, and each with its length.
func appendSources(dst []byte, ids []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ids)))
	for _, id := range ids {
		dst = append(binary.AppendUvarint(dst, uint64(len(id))), id...)
	}
	return dst
}

// parseSources decodes the output of appendSources and returns the remaining bytes. It returns nil if it cannot.
func parseSources(b []byte) (ids []string, rest []byte) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n == 0 || n > maxSources {
		return nil, nil
	}
	b = b[size:]
	for range n {
		length, size := binary.Uvarint(b)
		if size <= 0 || length > uint64(len(b)-size) {
			return nil, nil
		}
		ids = append(ids, string(b[size:size+int(length)]))
		b = b[size+int(length):]
	}
	return ids, b
}
