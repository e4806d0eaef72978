package records

import (
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// This is the table of everything that is stored. Each entry declares a kind: its name, the layout of its keys and what
// its records hold. A kind lies in the spaces of tenants unless the entry says otherwise. Verify reports a record whose
// key is of no kind.
//
// An incarnation is 8 random bytes, drawn when a project, session, board or inbox is created. If one is deleted and
// created again, the records of the old one stay invisible until they are swept.

// loose begins the keys of records that are written without waiting for the disk.
const loose = string(store.Loose)

// The tenant.
var (
	Live   = key0("live", "l\x00", "the tenant's incarnation, which every change in the tenant checks")
	APIKey = key1("key", "k\x00", id("key"), "API key")
	KeyUse = key1("key_use", loose+"u", lastID("key"), "roughly when an API key was last used")
	Usage  = key1("usage", "u\x00", u16("day"), "the tenant's usage on that day")
	Audit  = key2("audit", "a\x00", newestFirst("time"), array[[8]byte]("id"), "audit entry")
	Tenant = system(key1("tenant", "t\x00", id("tenant"), "tenant"))

	SignIn = both(key1("sign_in", "d\x00s", array[[32]byte]("sha256"),
		"browser that is signed in to the console, by the digest of its cookie"))
	SignInLink = both(key1("sign_in_link", "d\x00l", array[[32]byte]("sha256"),
		"link that signs a browser in once, by the digest of its token"))

	// StoreTime is read before anything else, so that the time of what is stored never goes back.
	StoreTime = system(key0("store_time", "s\x00", "roughly the current time, which never goes back"))

	Once   = both(key1("idempotent", "i\x00", array[[16]byte]("hash"), "response to an idempotent request"))
	Expiry = both(key2("expiry", "x\x00", earliestFirst("time"), lastKey("key"),
		"time at which the named record is deleted"))
	Import   = key1("import", "f\x00", array[[32]byte]("sha256"), "progress of a running import of a tenant's file")
	DailyJob = both(key0("retention", "r\x00", "daily job: when it is due, and its progress"))
)

// Projects and policies.
var (
	Project        = key1("project", "p\x00", id("project"), "project with its settings")
	SettingsChange = once(key3("settings_change", "ps\x00", inc("project"), newestFirst("time"),
		array[[8]byte]("id"), "change of a project's settings: the old and new values"))
	Policy        = key1("policy", "g\x00", id("policy"), "policy: its versions, and which is live")
	PolicyVersion = key2("policy_version", "y\x00", id("policy"), u32("version"),
		"manifest of a version, and the results of its checks")
	PolicyUsage = key0("policy_usage", "q\x00", "number of the tenant's policy versions, and their size in bytes")
	Module      = both(once(key1("module", "w\x00", array[[32]byte]("sha256"),
		"policy module; those that come with Mneme are in the system space")))
	BuiltIn = system(key1("built_in", "n\x00", id("policy"), "policy that comes with Mneme: its versions"))
)

// Sessions and the decisions made for them.
var (
	Session = key2("session", "h\x00", inc("project"), id("session"),
		"head of a session: counts and the incarnation of its messages")
	OpenCalls = key2("open_calls", "o\x00", inc("project"), id("session"),
		"the session's open calls, with what is needed to accept their results")
	Body = once(key2("body", "m\x00", inc("session").then("b"), u64("seq"),
		"message: header, format, and JSON as posted"))
	Blob = once(key2("blob", "m\x00", inc("session").then("x"), array[[16]byte]("id"),
		"piece of a long string of a message, such as a picture"))
	Change = once(key2("change", "m\x00", inc("session").then("c"), u32("change"),
		"change of messages: what they were before"))
	Headers = key2("headers", "m\x00", inc("session").then("h"), u64("first"),
		"packed headers of a turn, or of a part added to it, by its first message")
	OpenTurn = rewritten(key2("open_turn", "m\x00", inc("session").then("o"), array[[16]byte]("response"),
		"messages of a turn up to a response that calls tools, for clients that send only new messages"))
	Summary   = key2("summary", "m\x00", inc("session").then("s"), u32("version"), "version of the running summary")
	Effective = key3("effective", loose+"e", inc("project"), u16("day"), array[[16]byte]("hash"),
		"settings and pinned pipeline; the day's decisions refer to them by hash")
	Trace = key3("trace", loose+"t", inc("project"), u16("day"), array[[16]byte]("hash"),
		"hashes of the newest window of a session, viewer and format, to compare the next one with")
	Calibration = key3("calibration", loose+"c", inc("project"), u16("day"), array[[16]byte]("hash"),
		"tokens that a model's provider counted on that day, and tokens that Mneme counted")
	Stats = key3("stats", loose+"h", inc("project"), u32("hour"), array[[8]byte]("server"),
		"one server's counts for the project in an hour (counted from 1970): turns, windows, tokens")
	Decision = rewritten(key4("decision", loose+"d", inc("project"), u16("day"), inc("session"),
		array[[14]byte]("unique"), "decision: how a window was made"))
	DecisionRow = key4("decision_row", loose+"r", inc("project"), u16("day"), array[[14]byte]("unique"), inc("session"),
		"fields of a decision that lists show, by time")
	Response = key2("response", "R\x00", inc("project"), array[[16]byte]("hash"),
		"position of a provider's response in a session, for requests that continue it")

	// SessionRecords are the messages of a session, their headers, its open turns and its summary.
	SessionRecords = group[ident.Incarnation]{"m\x00", inc("session")}
)

// Memories and recall indexes. A space is m for memories or t for the transcript. A document's place is the
// number of its namespace, a stream and a position in it. The key of a memory is its full name, with its namespace.
var (
	Memory = rewritten(key2("memory", "e\x00r", inc("project"), fullName("key"),
		"memory: metadata and content"))
	MemoryVersion = once(key3("memory_version", "e\x00h", inc("project"), fullName("key"), u32("version"),
		"earlier version of a memory"))
	MemoryTime = key3("memory_time", "e\x00t", inc("project"), newestFirst("time"), lastFullName("key"),
		"memories by their time: the fields that filters use")
	AdmitLine = rewritten(key2("admit_line", "e\x00n", inc("project"), anything("namespace"),
		"how many memories were written to a namespace under keys of Mneme's own while policies decided about them"))
	RecallDocument = key4("recall_document", "v\x00", inc("project"), recallSpace("d"), stream, u64("pos"),
		"document whose postings are in blocks")
	RecallFresh = key5("recall_fresh", "v\x00", inc("project"), recallSpace("f"), u32("epoch"), stream,
		u64("pos"), "document whose postings are not yet in blocks")
	RecallEpoch = key2("recall_epoch", "v\x00", inc("project"), recallSpace("w"),
		"current epoch, under which new documents are written until their postings are in blocks")
	RecallDead = key5("recall_dead", "v\x00", inc("project"), recallSpace("x"), u32("epoch"), stream,
		u64("pos"), "deleted document whose postings still exist: its number of words")
	RecallBlock = key5("recall_block", "v\x00", inc("project"), recallSpace("t"), term("term"), stream,
		u64("pos"), "block of a term's postings, by the position of the first")
	RecallMemory = key2("recall_memory", "v\x00", inc("project").then("mk"), lastFullName("key"),
		"positions of a memory's passages")
	RecallStream = key3("recall_stream", "v\x00", inc("project"), recallSpace("n"), stream,
		"next position of a stream, and how much of a session is indexed")
	RecallLanguage = key3("recall_language", "v\x00", inc("project"), recallSpace("l"), anything("language"),
		"marks that some document was stemmed in that language")
	RecallNamespaceLanguage = key4("recall_namespace_language", "v\x00", inc("project"), recallSpace("r"),
		u64("namespace"), anything("language"), "marks the same for the namespace with that number")
	RecallNamespace = key3("recall_namespace", "v\x00", inc("project"), recallSpace("p"), anything("path"),
		"number and total length of the namespace's documents in blocks")
	RecallCorpus = key2("recall_corpus", "v\x00", inc("project"), recallSpace("s"),
		"number and total length of the documents in blocks")
	RecallUnembedded = key4("recall_unembedded", "v\x00", inc("project"), recallSpace("u"), stream, u64("pos"),
		"document in blocks that waits for its vector")
	RecallModel = key2("recall_model", "v\x00", inc("project"), recallSpace("v"),
		"embedding model, its dimensions, and the first document not yet marked as waiting for a vector")
	RecallBits = key4("recall_bits", "v\x00", inc("project"), recallSpace("y"), stream, u64("pos"),
		"tag of the model, then the signs of the dimensions of a document's vector")
	RecallVector = key4("recall_vector", "v\x00", inc("project"), recallSpace("z"), stream, u64("pos"),
		"tag of the model, then a document's vector with one byte for each dimension")

	// RecallRecords are the recall indexes of a project.
	RecallRecords = group[ident.Incarnation]{"v\x00", inc("project")}
)

// The spaces of a project's recall index.
const (
	RecallMemories   = 'm'
	RecallTranscript = 't'
)

// Stream is a stream of a recall index in the namespace with a number.
type Stream struct{ Namespace, Number uint64 }

var stream = fixed("namespace:8 stream:8", 16,
	func(key []byte, s Stream) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(key, s.Namespace), s.Number)
	},
	func(b []byte) Stream { return Stream{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])} })

// recallSpace is a space of a recall index and a kind of its records.
func recallSpace(kind string) part[byte] { return oneOf("space", "mt").then(kind) }

// Boards.
var (
	Board = key1("board", "b\x00", id("board"), "board: its name, its counts and the incarnation of its contents")
	Entry = once(key2("board_entry", "c\x00", inc("board").then("e"), u64("seq"), "entry"))

	EntryTime = key3("board_time", "c\x00", inc("board").then("d"), earliestFirst("time"), u64("seq"),
		"entries by time")
	Postings = key3("board_postings", "c\x00", inc("board").then("i"), term("term"), u64("block"),
		"bit set of the entries in a block of 1,024 that have a term, which is a tag, a word or *all*")
	BoardAgent = key2("board_agent", "c\x00", inc("board").then("g"), id("agent"),
		"agent of the board, and the head of the agent's inbox")
	BoardValue = key2("board_value", "c\x00", inc("board").then("v"), id("key"),
		"value stored on the board under a key")
	Notice = key3("board_notice", "c\x00", inc("board").then("n"), inc("inbox"), u64("seq"),
		"notification in an inbox")

	// BoardRecords are all that is on a board.
	BoardRecords = group[ident.Incarnation]{"c\x00", inc("board")}
)

// Jobs: records that say that there is work, until the work is done.
var (
	SessionJob = key1("job_session", JobPrefix+"s", inc("session"), "sweep of a session's messages")
	ProjectJob = key1("job_project", JobPrefix+"p", inc("project"),
		"sweep of a deleted project's sessions and memories")
	DecisionsJob = key1("job_decisions", JobPrefix+"d", inc("project"), "delete the contents of decisions up to a time")
	HeadlessJob  = key1("job_headless", JobPrefix+"h", inc("project"),
		"find messages of sessions whose damaged head was deleted")
	StagedSessionJob = key2("job_import", stagedPrefix, earliestFirst("time").then(JobPrefix+"s"), inc("session"),
		"session being imported; it is swept at that time unless the import completes")
	StagedBoardJob = key2("job_import_board", stagedPrefix, earliestFirst("time").then(JobPrefix+"cc\x00"),
		inc("board"), "board being imported; it is swept at that time unless the import completes")
	SummaryJob = key1("job_summary", JobPrefix+"y", inc("session"), "make or extend a summary")
	FoldJob    = key2("job_fold", JobPrefix+"f", inc("project"), oneOf("space", "mt"),
		"move documents into blocks; also the progress of rebuilding a damaged index")
	UnindexedJob = key2("job_unindexed", JobPrefix+"u", inc("project"), inc("session"),
		"index the messages of a session")
	BacklogJob = key1("job_backlog", JobPrefix+"b", inc("project"),
		"mark the project's sessions that have messages to index")
	BoardJob = key1("job_board", JobPrefix+"cc\x00", inc("board"), "sweep of a deleted board")
	InboxJob = key2("job_inbox", JobPrefix+"cc\x00", inc("board").then("n"), inc("inbox"),
		"sweep of a deleted inbox")
	BoardDueJob = key2("job_board_due", JobPrefix+"e", earliestFirst("due"), lastID("board"),
		"delete what is past a board's retention")
	TenantJob = system(key1("job_tenant", JobPrefix+"t", anything("tenant"), "sweep of a deleted tenant"))
)

// JobPrefix begins the key of every job.
const JobPrefix = "j\x00"
