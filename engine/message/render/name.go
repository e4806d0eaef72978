package render

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Name identifies a window by the SHA-256 of its parts' sums and a CRC-32C of its bytes. The sums are cached; the CRC
// detects changes in how parts are joined.
func (w *Window) Name(sums []byte) string {
	sum := sha256.Sum256(sums)
	crc := crc32.Update(0, castagnoli, w.Messages)
	crc = crc32.Update(crc32.Update(crc, castagnoli, w.Text), castagnoli, []byte(w.System))
	crc = crc32.Update(crc, castagnoli, w.SystemBlocks)
	return hex.EncodeToString(binary.BigEndian.AppendUint32(sum[:], crc))
}
