package engine

import (
	"encoding/binary"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// keysold.go keeps the functions that made and read keys before there was a table of kinds, until their callers use the
// table themselves.

var liveKey = kindLive.Key()
var retentionKey = kindDailyJob.Key()

func apiKeyKey(id string) []byte       { return kindKey.Key(id) }
func projectKey(id string) []byte      { return kindProject.Key(id) }
func tenantKey(id string) []byte       { return kindTenant.Key(id) }
func builtInKey(name string) []byte    { return kindBuiltIn.Key(name) }
func policyKey(name string) []byte     { return kindPolicy.Key(name) }
func policyUsageKey() []byte           { return kindPolicyUsage.Key() }
func onceKey(hash [16]byte) []byte     { return kindOnce.Key(hash) }
func moduleKey(digest [32]byte) []byte { return kindModule.Key(digest) }

func policyVersionKey(name string, version int) []byte {
	return kindPolicyVersion.Key(name, uint32(version))
}

func headPrefix(p incarnation) []byte                   { return kindSession.Under(p).From }
func headKey(p incarnation, session string) []byte      { return kindSession.Key(p, session) }
func openCallsKey(p incarnation, session string) []byte { return kindOpenCalls.Key(p, session) }
func sessionPrefix(s incarnation) []byte                { return sessionRecords.Under(s).From }
func headersKey(s incarnation, turn uint32) []byte      { return kindHeaders.Key(s, turn) }
func bodyKey(s incarnation, seq uint64) []byte          { return kindBody.Key(s, seq) }
func summaryKey(s incarnation, version uint32) []byte   { return kindSummary.Key(s, version) }
func summaryJobKey(s incarnation) []byte                { return kindSummaryJob.Key(s) }

// bodySeq reads the message's number out of a body key.
func bodySeq(key []byte) uint64 {
	_, seq, _ := kindBody.Split(key)
	return seq
}

// memoryPrefix begins the records of a project's memories of the sort r (now), h (before) or t (by time).
func memoryPrefix(kind byte, p incarnation) []byte { return append([]byte{'e', sep, kind}, p[:]...) }

// memoryTimes begins the time indexes of all of a tenant's projects.
func memoryTimes() []byte { return kindMemoryTime.All().From }

func memoryKey(p incarnation, key string) []byte { return kindMemory.Key(p, key) }

// splitMemoryKey gives back what a memory's key was made of; not ok where it is the key of something else.
func splitMemoryKey(k []byte) (p incarnation, key string, ok bool) {
	return kindMemory.Split(k)
}

func memoryVersionKey(p incarnation, key string, version int) []byte {
	return kindMemoryVersion.Key(p, key, uint32(version))
}

func memoryTimeKey(p incarnation, at time.Time, key string) []byte {
	return kindMemoryTime.Key(p, at, key)
}

// splitMemoryTime gives back the memory that an entry of that index names.
func splitMemoryTime(k []byte) (at time.Time, key string) {
	_, at, key, _ = kindMemoryTime.Split(k)
	return at, key
}

func expiryKey(at time.Time, key []byte) []byte { return kindExpiry.Key(at, key) }

// expiredRange covers the expiry index up to now; splitExpiry gives back the key that an entry names.
func expiredRange(now time.Time, limit int) store.Range {
	rng := kindExpiry.Before(now)
	rng.Limit = limit
	return rng
}

func splitExpiry(key []byte) []byte {
	_, of, _ := kindExpiry.Split(key)
	return of
}

const (
	sweepSession  = 's'
	sweepProject  = 'p'
	sweepTenant   = 't'
	sweepStaged   = 'i'
	sweepHeadless = 'h'
	// sweepDecisions empties the decisions of a project that lives on.
	sweepDecisions = 'd'
	sweepPrefixed  = 'c'
	jobSummary     = 'y'
	jobFold        = 'f'
	jobUnindexed   = 'u'
	jobBacklog     = 'b'
)

func sweepPrefix(kind byte) []byte { return append([]byte(jobPrefix), kind) }

func sweepKey(kind byte, what []byte) []byte { return append(sweepPrefix(kind), what...) }

func decisionPrefix(p incarnation) []byte  { return kindDecision.Under(p).From }
func effectivePrefix(p incarnation) []byte { return kindEffective.Under(p).From }

func effectiveKey(p incarnation, day uint16, hash [16]byte) []byte {
	return kindEffective.Key(p, day, hash)
}
func decisionDayPrefix(p incarnation, day uint16) []byte { return kindDecision.Under2(p, day).From }

// The kinds of records of a recall index.
const (
	recallDocument = 'd'
	recallFresh    = 'f'
	recallEpoch    = 'w'
	recallDead     = 'x'
	recallTerm     = 't'
	recallStream   = 'n'
	recallLanguage = 'l'
	recallCorpus   = 's'
)

func recallProject(p incarnation) []byte { return recallRecords.Under(p).From }

func recallPrefix(p incarnation, space, kind byte) []byte {
	return append(recallProject(p), space, kind)
}

func recallPlace(p incarnation, space, kind byte, at recall.Place) []byte {
	return appendPlace(recallPrefix(p, space, kind), at)
}

// recallFreshFrom begins the documents that are not in blocks yet, of an epoch and those after it.
func recallFreshFrom(p incarnation, space byte, epoch uint32) []byte {
	return kindRecallFresh.Under3(p, space, epoch).From
}

func recallFreshKey(p incarnation, space byte, epoch uint32, at recall.Place) []byte {
	return kindRecallFresh.Key(p, space, epoch, at.Stream, at.Pos)
}

// freshEpoch reads the epoch out of a fresh document's key.
func freshEpoch(key []byte) uint32 {
	_, _, epoch, _, _, _ := kindRecallFresh.Split(key)
	return epoch
}

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
	return kindRecallBlock.Under3(p, space, term).From
}

func recallPlacesKey(p incarnation, id string) []byte { return kindRecallMemory.Key(p, id) }

func recallLanguageKey(p incarnation, space byte, language string) []byte {
	return kindRecallLanguage.Key(p, space, language)
}

func foldKey(p incarnation, space byte) []byte { return kindFoldJob.Key(p, space) }
func unindexedPrefix(p incarnation) []byte     { return kindUnindexedJob.Under(p).From }
func unindexedKey(p, s incarnation) []byte     { return kindUnindexedJob.Key(p, s) }
func backlogKey(p incarnation) []byte          { return kindBacklogJob.Key(p) }

func boardKey(id string) []byte        { return kindBoard.Key(id) }
func boardPrefix(b incarnation) []byte { return boardRecords.Under(b).From }

func entryKey(b incarnation, seq uint64) []byte { return kindEntry.Key(b, seq) }
func entryTimePrefix(b incarnation) []byte      { return kindEntryTime.Under(b).From }

func entryTimeKey(b incarnation, ms int64, seq uint64) []byte {
	return kindEntryTime.Key(b, timeOf(ms), seq)
}

// entryTimeSeq and entryTimeAt read the number and the time out of a key of entries by time.
func entryTimeSeq(key []byte) uint64 {
	_, _, seq, _ := kindEntryTime.Split(key)
	return seq
}

func entryTimeAt(key []byte) time.Time {
	_, at, _, _ := kindEntryTime.Split(key)
	return at
}

func postingsKey(b incarnation, term string, block uint64) []byte {
	return kindPostings.Key(b, term, block)
}

// postingsBlock reads the block's number out of a key of postings.
func postingsBlock(key []byte) uint64 {
	_, _, block, _ := kindPostings.Split(key)
	return block
}

func boardAgentPrefix(b incarnation) []byte             { return kindBoardAgent.Under(b).From }
func boardAgentKey(b incarnation, agent string) []byte  { return kindBoardAgent.Key(b, agent) }
func inboxPrefix(b, inbox incarnation) []byte           { return kindNotice.Under2(b, inbox).From }
func noticeKey(b, inbox incarnation, seq uint64) []byte { return kindNotice.Key(b, inbox, seq) }

// noticeSeq reads a notification's number out of its key.
func noticeSeq(key []byte) uint64 {
	_, _, seq, _ := kindNotice.Split(key)
	return seq
}

func boardDueKey(due time.Time, board string) []byte { return kindBoardDueJob.Key(due, board) }

// dueBoard covers the first look that is due by now; dueBoardID gives the board that a key names.
func dueBoard(now time.Time) store.Range {
	rng := kindBoardDueJob.Before(now.Add(time.Millisecond))
	rng.KeysOnly, rng.Limit = true, 1
	return rng
}

func dueBoardID(key []byte) string {
	_, board, _ := kindBoardDueJob.Split(key)
	return board
}
