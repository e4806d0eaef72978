package engine

import (
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/recall"
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
//	j h <pinc>                 messages to look for whose session's head was damaged and is deleted
//	j i <expiry ms> <inc>      what an import under way wrote, a session's messages or a board's things, to be swept if it
//	                           does not end
//	j y <sinc>                 summary to make or extend
//	u day                      what was used that day
//	g name                     policy: its versions, and which is live
//	y name version             policy version: what its manifest and its checks say
//	w digest part              policy module, by SHA-256, in parts of at most store.MaxValue
//	q                          how many policy versions the tenant keeps, and their bytes
//	a <time> id                audit entry, newest first
//	e r <pinc> key part        memory: what it says of itself and its content, in parts of at most store.MaxValue
//	e h <pinc> key version part  what a memory was before, by its version there, likewise
//	e t <pinc> <time> key      memories by their last change, newest first: what filters ask of them
//	v <pinc> space d place     document of the recall index; space: m memories, t transcript; place: stream, position
//	v <pinc> space f epoch place  document whose postings are not in blocks yet
//	v <pinc> space w           the epoch that such are written in
//	v <pinc> space x place     that the document is gone, though its postings are not
//	v <pinc> space t term first  block of a term's postings, by the place that it begins at
//	v <pinc> space k id        where a memory's passages are
//	v <pinc> space n stream    how far a stream is: its next position, and what of a session is indexed
//	v <pinc> space l language  that some document's words were stemmed in that language
//	v <pinc> space s           how many documents are in blocks, and their length
//	j f <pinc> space           that there are documents, which are put into blocks; how far a damaged index is built again
//	j u <pinc> <sinc>          session with messages that are not indexed
//	j b <pinc>                 a project's sessions still to be marked so, from one on
//	r                          the daily job: when it is due, and how far it has come (in the system space, too)
//	b board                    board: what it is called, its counts and the incarnation of what is on it
//	c <binc> e seq part        board's entry, in parts of at most store.MaxValue
//	c <binc> d <time> seq      its entries by time
//	c <binc> i term block      which of a block of 1,024 numbers have a term: all, a tag, a word
//	c <binc> g agent           its agent, with the head of the agent's inbox
//	c <binc> n <ainc> seq      notification in an inbox
//	j c prefix                 sweep of what begins with a prefix: a deleted board's things, a deleted agent's inbox
//	j e <due ms> board         a look for what is past a board's retention
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

// stream is the incarnation as a number, by which the recall index knows a session.
func (i incarnation) stream() uint64 { return binary.BigEndian.Uint64(i[:]) }

func incarnationOf(stream uint64) (i incarnation) {
	binary.BigEndian.PutUint64(i[:], stream)
	return i
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

func memoryPrefix(kind byte, p incarnation) []byte { return append([]byte{'e', sep, kind}, p[:]...) }

// memoryTimes begins the time indexes of all of a tenant's projects.
func memoryTimes() []byte { return []byte{'e', sep, 't'} }

func memoryKey(p incarnation, key string, part int) []byte {
	return append(append(append(memoryPrefix('r', p), key...), sep), byte(part))
}

// splitMemoryKey gives back what a memory's key was made of; not ok where it is the key of something else.
func splitMemoryKey(k []byte) (p incarnation, key string, ok bool) {
	const before, after = 3 + len(p), 2
	if len(k) <= before+after || k[0] != 'e' || k[1] != sep || k[2] != 'r' {
		return p, "", false
	}
	return incarnation(k[3:before]), string(k[before : len(k)-after]), true
}

func memoryVersionKey(p incarnation, key string, version, part int) []byte {
	k := append(append(memoryPrefix('h', p), key...), sep)
	return append(binary.BigEndian.AppendUint32(k, uint32(version)), byte(part))
}

// memoryTimeKey counts time downwards, as auditKey does.
func memoryTimeKey(p incarnation, at time.Time, key string) []byte {
	return append(binary.BigEndian.AppendUint64(memoryPrefix('t', p), ^uint64(at.UnixMilli())), key...)
}

// splitMemoryTime gives back the memory that an entry of that index names.
func splitMemoryTime(k []byte) (at time.Time, key string) {
	const before = 3 + len(incarnation{})
	return timeOf(int64(^binary.BigEndian.Uint64(k[before:]))), string(k[before+8:])
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
	sweepSession  = 's'
	sweepProject  = 'p'
	sweepTenant   = 't'
	sweepImport   = 'i'
	sweepHeadless = 'h'
	// sweepDecisions empties the decisions of a project that lives on.
	sweepDecisions = 'd'
)

const jobSummary = 'y'

// stagedBoard is the value of such a job where it is of a board; of a session it is the project's incarnation.
const stagedBoard = "board"

// stagedKey is the job of what an import wrote; dueImports covers those that ran out by now.
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

// The spaces of a project's recall index.
const (
	recallMemories   = 'm'
	recallTranscript = 't'
)

// The kinds of records of a recall index.
const (
	recallDocument = 'd'
	recallFresh    = 'f'
	recallEpoch    = 'w'
	recallDead     = 'x'
	recallTerm     = 't'
	recallPlaces   = 'k'
	recallStream   = 'n'
	recallLanguage = 'l'
	recallCorpus   = 's'
)

func recallProject(p incarnation) []byte { return append([]byte{'v', sep}, p[:]...) }

func recallPrefix(p incarnation, space, kind byte) []byte {
	return append(recallProject(p), space, kind)
}

func recallPlace(p incarnation, space, kind byte, at recall.Place) []byte {
	return appendPlace(recallPrefix(p, space, kind), at)
}

// recallFreshFrom begins the documents that are not in blocks yet, of an epoch and those after it.
func recallFreshFrom(p incarnation, space byte, epoch uint32) []byte {
	return binary.BigEndian.AppendUint32(recallPrefix(p, space, recallFresh), epoch)
}

func recallFreshKey(p incarnation, space byte, epoch uint32, at recall.Place) []byte {
	return appendPlace(recallFreshFrom(p, space, epoch), at)
}

// freshEpoch reads the epoch out of a fresh document's key.
func freshEpoch(key []byte) uint32 { return binary.BigEndian.Uint32(key[len(key)-20:]) }

func appendPlace(key []byte, at recall.Place) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(key, at.Stream), at.Pos)
}

// splitPlace reads the place that a key ends with.
func splitPlace(key []byte) recall.Place {
	end := key[len(key)-16:]
	return recall.Place{Stream: binary.BigEndian.Uint64(end), Pos: binary.BigEndian.Uint64(end[8:])}
}

func recallStreamPrefix(p incarnation, space, kind byte, stream uint64) []byte {
	return binary.BigEndian.AppendUint64(recallPrefix(p, space, kind), stream)
}

// recallTermPrefix begins the blocks of a term, which holds no zero byte.
func recallTermPrefix(p incarnation, space byte, term string) []byte {
	return append(append(recallPrefix(p, space, recallTerm), term...), sep)
}

func recallPlacesKey(p incarnation, id string) []byte {
	return append(recallPrefix(p, recallMemories, recallPlaces), id...)
}

func recallLanguageKey(p incarnation, space byte, language string) []byte {
	return append(recallPrefix(p, space, recallLanguage), language...)
}

const (
	jobFold      = 'f'
	jobUnindexed = 'u'
	jobBacklog   = 'b'
)

func foldKey(p incarnation, space byte) []byte { return append(sweepKey(jobFold, p[:]), space) }

func unindexedPrefix(p incarnation) []byte { return sweepKey(jobUnindexed, p[:]) }

func unindexedKey(p, s incarnation) []byte { return append(unindexedPrefix(p), s[:]...) }

func backlogKey(p incarnation) []byte { return sweepKey(jobBacklog, p[:]) }

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
