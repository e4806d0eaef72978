package engine

import (
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// The whole key layout, one line each. Client ids never hold a zero byte, so sep ends them; numbers are big-endian so
// that keys sort by them; incarnations are 8 random bytes, new whenever a project or session is made, so that what was
// deleted can be swept later without being seen again.
//
// In a tenant's own space:
//
//	l                          that the tenant lives: its incarnation, expected by every change in it
//	k key                      API key
//	p project                  project with its settings
//	h <pinc> session           session head: counts and the incarnation of its messages
//	o <pinc> session           a session's open calls, with what their results need
//	m <sinc> h turn            packed headers of one turn
//	m <sinc> b seq part        body of one message, in parts of at most store.MaxValue
//	m <sinc> s version         one version of the session's running summary
//	i <hash>                   answer to an idempotent request
//	x <expiry ms> <key>        expiry index: the key named goes at that time
//	j s <sinc> | j p <pinc>    sweeps to do: a session's messages, a project's sessions
//	j d <pinc>                 decisions of a project to be emptied, those made up to the time it says
//	j i <expiry ms> <sinc>     messages of an import under way, to be swept if it does not end
//	j y <sinc>                 summary to make or extend
//	u day                      what was used that day
//	g name                     policy: its versions, and which is live
//	y name version             policy version: what its manifest and its checks say
//	w digest part              policy module, by SHA-256, in parts of at most store.MaxValue
//	q                          how many policy versions the tenant keeps, and their bytes
//	a <time> id                audit entry, newest first
//	r                          the daily job: when it is due, and how far it has come (in the system space, too)
//	z d <pinc> day <sinc> id   decision (loose: written, not synced)
//	z e <pinc> day hash        settings and pinned pipeline that the day's decisions name by hash (loose)
//	z u key                    when an API key was last used, about (loose)
//
// In the system space:
//
//	t tenant                   tenant
//	j t tenant                 sweep of a deleted tenant
//	w digest part              built-in policy module, by SHA-256
//	n name                     built-in policy: its versions
const sep = 0

// systemTenant holds what belongs to no tenant. No client may choose an id with a "!".
const systemTenant = "!system"

// incarnation tells apart things that bear the same id at different times.
type incarnation [8]byte

func (i incarnation) String() string { return hex.EncodeToString(i[:]) }

func (i incarnation) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

func (i *incarnation) UnmarshalText(b []byte) error {
	_, err := hex.Decode(i[:], b)
	return err
}

func idKey(kind byte, id string) []byte {
	return append(append([]byte{kind, sep}, id...), sep)
}

var liveKey = []byte{'l', sep}

func apiKeyKey(id string) []byte  { return idKey('k', id) }
func projectKey(id string) []byte { return idKey('p', id) }
func tenantKey(id string) []byte  { return idKey('t', id) }
func builtInKey(name string) []byte {
	return idKey('n', name)
}

func policyKey(name string) []byte { return idKey('g', name) }

func policyVersionKey(name string, version int) []byte {
	return binary.BigEndian.AppendUint32(idKey('y', name), uint32(version))
}

func moduleKey(digest [32]byte) []byte { return append([]byte{'w', sep}, digest[:]...) }

func modulePartKey(digest [32]byte, part int) []byte {
	return binary.BigEndian.AppendUint16(moduleKey(digest), uint16(part))
}

var retentionKey = []byte{'r', sep}

func keyUseKey(id string) []byte { return append([]byte{store.Loose, 'u'}, id...) }

func policyUsageKey() []byte { return []byte{'q', sep} }

// auditKey counts time downwards, so that the newest entry comes first.
func auditKey(at time.Time, id [8]byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{'a', sep}, ^uint64(at.UnixMilli())), id[:]...)
}

func headPrefix(p incarnation) []byte { return append([]byte{'h', sep}, p[:]...) }

func headKey(p incarnation, session string) []byte {
	return append(append(headPrefix(p), session...), sep)
}

func sessionPrefix(s incarnation) []byte { return append([]byte{'m', sep}, s[:]...) }

func headersKey(s incarnation, turn uint32) []byte {
	return binary.BigEndian.AppendUint32(append(sessionPrefix(s), 'h'), turn)
}

func bodyKey(s incarnation, seq uint64, part uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(append(sessionPrefix(s), 'b'), seq), part)
}

func summaryKey(s incarnation, version uint32) []byte {
	return binary.BigEndian.AppendUint32(append(sessionPrefix(s), 's'), version)
}

func summaryJobKey(s incarnation) []byte { return sweepKey(jobSummary, s[:]) }

func usageKey(day uint16) []byte { return binary.BigEndian.AppendUint16([]byte{'u', sep}, day) }

// bodySeq reads the message's number out of a body key.
func bodySeq(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-10:]) }

func openCallsKey(p incarnation, session string) []byte {
	return append(append(append([]byte{'o', sep}, p[:]...), session...), sep)
}

func onceKey(hash [16]byte) []byte { return append([]byte{'i', sep}, hash[:]...) }

func expiryKey(at time.Time, key []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{'x', sep}, uint64(at.UnixMilli())), key...)
}

// expiredRange covers the expiry index up to now; splitExpiry gives back the key that an entry names.
func expiredRange(now time.Time, limit int) store.Range {
	return store.Range{From: []byte{'x', sep}, To: expiryKey(now, nil), Limit: limit}
}

func splitExpiry(key []byte) []byte { return key[2+8:] }

const (
	sweepSession = 's'
	sweepProject = 'p'
	sweepTenant  = 't'
	// sweepDecisions empties the decisions of a project that lives on.
	sweepDecisions = 'd'
)

const (
	sweepImport = 'i'
	jobSummary  = 'y'
)

// stagedKey is the job of an import's messages; dueImports covers those that ran out by now.
func stagedKey(until time.Time, s incarnation) []byte {
	return append(binary.BigEndian.AppendUint64(sweepPrefix(sweepImport), uint64(until.UnixMilli())), s[:]...)
}

func dueImports(now time.Time, limit int) store.Range {
	return store.Range{From: sweepPrefix(sweepImport), To: stagedKey(now, incarnation{}), Limit: limit}
}

func sweepPrefix(kind byte) []byte { return []byte{'j', sep, kind} }

func sweepKey(kind byte, what []byte) []byte { return append(sweepPrefix(kind), what...) }

func decisionPrefix(p incarnation) []byte {
	return append([]byte{store.Loose, 'd'}, p[:]...)
}

// day numbers the days since 1970: decisions lie by day, so that retention removes whole ranges and a session's
// decisions are found with one range a day.
func day(t time.Time) uint16 { return uint16(t.Unix() / 86400) }

// effectivePrefix and effectiveKey hold what many decisions share; they go with the decisions of their day.
func effectivePrefix(p incarnation) []byte {
	return append([]byte{store.Loose, 'e'}, p[:]...)
}

func effectiveKey(p incarnation, day uint16, hash [16]byte) []byte {
	return append(binary.BigEndian.AppendUint16(effectivePrefix(p), day), hash[:]...)
}

func decisionDayPrefix(p incarnation, day uint16) []byte {
	return binary.BigEndian.AppendUint16(decisionPrefix(p), day)
}

func decisionKey(p incarnation, id decisionID) []byte {
	return append(append(decisionDayPrefix(p, id.day), id.session[:]...), id.unique[:]...)
}

// prefixRange covers all keys that begin with prefix.
func prefixRange(prefix []byte) store.Range {
	return store.Range{From: prefix, To: prefixEnd(prefix)}
}

func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
