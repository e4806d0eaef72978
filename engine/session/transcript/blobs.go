package transcript

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// One commit holds about 8 MB. Of a turn that may be larger, the long strings, such as screenshots in base64, are stored
// first, as blobs of the session, and the bodies have holes in their places. Each blob expires after a day, unless the
// turn's commit says otherwise, so a crash in between leaves nothing.

const (
	// largeTurn is the size in bytes from which on a turn's long strings are blobs.
	largeTurn = 4 << 20
	// minBlob is the length of the shortest string that becomes a blob, and maxBlob the size of the largest blob. A longer
	// string becomes several.
	minBlob, maxBlob = 64 << 10, 4 << 20
	// maxBlobs is how many bytes of blobs a turn may have.
	maxBlobs = 64 << 20
	// blobLife is how long a blob waits for its turn.
	blobLife = 24 * time.Hour
)

// hole is a place in a body whose bytes are a blob.
type hole struct {
	at   uint32 // offset in the body without its holes
	size uint32
	id   [16]byte
	sum  [16]byte // the beginning of the blob's SHA-256
}

const holeSize = 4 + 4 + 16 + 16

// cutMark begins a body with holes. Other bodies begin with the version of their header.
const cutMark = 0xff

// cutting is a message's JSON with holes; their offsets are those in the JSON.
type cutting struct {
	rest  []byte
	holes []hole
}

// blobs are the blobs of a turn that have been stored for a session.
type blobs struct {
	session ident.Incarnation
	until   time.Time          // zero if they do not expire
	cut     map[*byte]*cutting // by the first byte of a message's JSON
}

// Large reports whether a turn needs its blobs to be stored before it.
func (t *Turn) Large() bool { return t.Bytes() > largeTurn }

// cutOut calls keep with the long strings of a message's JSON, in pieces, and returns what is left.
func cutOut(raw []byte, keep func(piece []byte) ([16]byte, error)) (*cutting, error) {
	var c *cutting
	done := 0 // of raw, copied or cut out
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		from := i + 1
		for i = from; i < len(raw) && raw[i] != '"'; i++ {
			if raw[i] == '\\' {
				i++
			}
		}
		to := min(i, len(raw))
		if to-from < minBlob {
			continue
		}
		if c == nil {
			c = new(cutting)
		}
		c.rest = append(c.rest, raw[done:from]...)
		for at := from; at < to; at += maxBlob {
			piece := raw[at:min(at+maxBlob, to)]
			id, err := keep(piece)
			if err != nil {
				return nil, err
			}
			c.holes = append(c.holes, hole{uint32(len(c.rest)), uint32(len(piece)), id, sumOf(piece)})
		}
		done = to
	}
	if c != nil {
		c.rest = append(c.rest, raw[done:]...)
	}
	return c, nil
}

func sumOf(b []byte) (sum [16]byte) {
	full := sha256.Sum256(b)
	copy(sum[:], full[:])
	return sum
}

// cutAll cuts the long strings out of a turn's messages.
func (t *Turn) cutAll(session ident.Incarnation, until time.Time, keep func(piece []byte) ([16]byte, error)) error {
	size := 0
	b := &blobs{session: session, until: until, cut: map[*byte]*cutting{}}
	for i := range t.Messages {
		raw := t.Messages[i].Raw
		c, err := cutOut(raw, func(piece []byte) ([16]byte, error) {
			if size += len(piece); size > maxBlobs {
				return [16]byte{}, fault.Errorf(fault.TooLarge, "turn_too_large",
					"the long strings of a turn take at most %d bytes", maxBlobs)
			}
			return keep(piece)
		})
		if err != nil {
			return err
		}
		if c != nil {
			b.cut[&raw[0]] = c
		}
	}
	t.blobs = b
	return nil
}

// StoreBlobs stores the blobs of a large turn for a session. They expire unless the turn is stored within a day.
func (svc *Service) StoreBlobs(ctx context.Context, c ident.Caller, session ident.Incarnation, t *Turn) error {
	if t.blobs != nil && t.blobs.session == session {
		return nil
	}
	until := svc.db.Now().Add(blobLife)
	var batch []store.Pair
	size := 0
	flush := func() error {
		_, err := records.Update(ctx, svc.db, c, ident.Once{}, func(tx *records.Tx) (none struct{}, _ error) {
			for _, p := range batch {
				tx.Put(p.Key, p.Value)
				tx.Put(records.Expiry.Key(until, p.Key), []byte{0})
			}
			return none, nil
		})
		batch, size = nil, 0
		return err
	}
	err := t.cutAll(session, until, func(piece []byte) (id [16]byte, err error) {
		if size+len(piece) > maxBlob {
			if err := flush(); err != nil {
				return id, err
			}
		}
		svc.db.Random(id[:])
		batch = append(batch, store.Pair{Key: records.Blob.Key(session, id), Value: bytes.Clone(piece)})
		size += len(piece)
		return id, nil
	})
	if err == nil && batch != nil {
		err = flush()
	}
	return err
}

// StageBlobs stores the blobs of a large turn of a session that is staged.
func (svc *Service) StageBlobs(to *records.Staging, session ident.Incarnation, t *Turn) error {
	if !t.Large() {
		return nil
	}
	return t.cutAll(session, time.Time{}, func(piece []byte) (id [16]byte, err error) {
		svc.db.Random(id[:])
		return id, to.Add(func(w *records.Tx) error {
			w.Put(records.Blob.Key(session, id), bytes.Clone(piece))
			return nil
		})
	})
}

// errOtherSession refuses a turn whose blobs were stored for a session that was deleted in the meantime.
var errOtherSession = fault.Errorf(fault.Conflict, "revision_changed", "the session was deleted or made meanwhile; read it again")

// body returns the record of a message's body, and keeps its blobs. With holes, its header counts the bytes of the
// whole message.
func (t *Turn) body(tx *records.Tx, session ident.Incarnation, h *Header, at int) ([]byte, error) {
	m := &t.Messages[at].Message
	var c *cutting
	if t.blobs != nil && len(m.Raw) > 0 {
		c = t.blobs.cut[&m.Raw[0]]
	}
	if c == nil {
		return appendBody(make([]byte, 0, int(h.BodyBytes)), h, m), nil
	}
	if t.blobs.session != session {
		return nil, errOtherSession
	}
	rest := *m
	rest.Raw = c.rest
	whole := appendBody(nil, h, &rest)
	before := uint32(len(whole) - len(c.rest))
	out := binary.LittleEndian.AppendUint32(append(make([]byte, 0, len(whole)+5+len(c.holes)*holeSize), cutMark), uint32(len(c.holes)))
	for _, hole := range c.holes {
		hole.at += before
		out = hole.append(out)
		if until := t.blobs.until; !until.IsZero() {
			expiry := records.Expiry.Key(until, records.Blob.Key(session, hole.id))
			tx.Batch.Expect = append(tx.Batch.Expect, store.Expect{Key: expiry, Value: []byte{0}})
			tx.Delete(expiry)
		}
	}
	return append(out, whole...), nil
}

func (h hole) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(dst, h.at), h.size)
	return append(append(dst, h.id[:]...), h.sum[:]...)
}

var errHoles = errors.New("the holes of a body cannot be read")

// holesOf returns the holes of a body record and the rest of it. A whole body has none.
func holesOf(b []byte) (holes []hole, rest []byte, err error) {
	if len(b) == 0 || b[0] != cutMark {
		return nil, b, nil
	}
	le := binary.LittleEndian
	if len(b) < 5 || uint64(len(b)) < 5+uint64(le.Uint32(b[1:]))*holeSize {
		return nil, nil, errHoles
	}
	holes = make([]hole, le.Uint32(b[1:]))
	b = b[5:]
	at := uint32(0)
	for i := range holes {
		h := &holes[i]
		h.at, h.size = le.Uint32(b), le.Uint32(b[4:])
		copy(h.id[:], b[8:])
		copy(h.sum[:], b[24:])
		b = b[holeSize:]
		if h.at < at || h.size > maxBlob {
			return nil, nil, errHoles
		}
		at = h.at
	}
	if uint64(at) > uint64(len(b)) {
		return nil, nil, errHoles
	}
	return holes, b, nil
}

// filled returns a body whose holes are filled by fill, which returns nil if it cannot.
func filled(b []byte, fill func(h *hole) []byte) []byte {
	holes, rest, err := holesOf(b)
	if err != nil || holes == nil {
		return b // ParseBody refuses what cannot be read.
	}
	size := len(rest)
	for i := range holes {
		size += int(holes[i].size)
	}
	out, from := make([]byte, 0, size), uint32(0)
	for i := range holes {
		blob := fill(&holes[i])
		if blob == nil {
			return nil
		}
		out = append(append(out, rest[from:holes[i].at]...), blob...)
		from = holes[i].at
	}
	return append(out, rest[from:]...)
}

// Sketch returns a body in which blobs are replaced by as many letters, for readers that need no long strings.
func Sketch(b []byte) []byte {
	return filled(b, func(h *hole) []byte { return bytes.Repeat([]byte{'A'}, int(h.size)) })
}

// Fill replaces the bodies with holes in a list by whole ones; nil if a blob is missing or damaged.
func (svc *Service) Fill(ctx context.Context, tenant string, session ident.Incarnation, bodies [][]byte) error {
	for i, b := range bodies {
		holes, _, err := holesOf(b)
		if err != nil {
			bodies[i] = nil
		}
		if holes == nil {
			continue
		}
		q := store.Query{Keys: make([][]byte, len(holes))}
		for n := range holes {
			q.Keys[n] = records.Blob.Key(session, holes[n].id)
		}
		r, err := svc.db.Store.Read(ctx, tenant, q)
		if err != nil {
			return err
		}
		next := 0
		bodies[i] = filled(b, func(h *hole) []byte {
			blob := r.Keys[next].Value
			next++
			if len(blob) != int(h.size) || sumOf(blob) != h.sum {
				return nil
			}
			return blob
		})
	}
	return nil
}

// copyBlobs copies the blobs of a body to a session that is staged.
func copyBlobs(to *records.Staging, from, session ident.Incarnation, body []byte) (whole bool, err error) {
	holes, _, err := holesOf(body)
	if err != nil {
		return false, nil
	}
	for i := range holes {
		r, err := to.Read(store.Query{Keys: [][]byte{records.Blob.Key(from, holes[i].id)}})
		if err != nil || r.Keys[0].Value == nil {
			return false, err
		}
		if err := to.Add(func(w *records.Tx) error {
			w.Put(records.Blob.Key(session, holes[i].id), r.Keys[0].Value)
			return nil
		}); err != nil {
			return false, err
		}
	}
	return true, nil
}
