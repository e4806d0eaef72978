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
// An incarnation is 8 random bytes, new whenever a project, a session, a board or an inbox is made, so that what was
// deleted can be swept later without being seen again.

// loose begins the keys of records that are written without waiting for the disk.
const loose = string(store.Loose)

// The tenant.
var (
	Live   = key0("live", "l\x00", "the tenant's incarnation, which every change in the tenant expects")
	APIKey = key1("key", "k\x00", id("key"), "API key")
	KeyUse = key1("key_use", loose+"u", lastID("key"), "when an API key was last used, about")
	Usage  = key1("usage", "u\x00", u16("day"), "what was used on that day")
	Audit  = key2("audit", "a\x00", newestFirst("time"), array[[8]byte]("id"), "audit entry")
	Tenant = system(key1("tenant", "t\x00", id("tenant"), "tenant"))

	SignIn = both(key1("sign_in", "d\x00s", array[[32]byte]("sha256"),
		"browser that is signed in to the console, by the digest of its cookie"))
	SignInLink = both(key1("sign_in_link", "d\x00l", array[[32]byte]("sha256"),
		"link that signs a browser in once, by the digest of its token"))

	// StoreTime is read before anything else, so that the time of what is stored never goes back.
	StoreTime = system(key0("store_time", "s\x00", "the store's time, about, which never goes back"))

	Once   = both(key1("idempotent", "i\x00", array[[16]byte]("hash"), "answer to an idempotent request"))
	Expiry = both(key2("expiry", "x\x00", earliestFirst("time"), lastKey("key"),
		"the named record goes at that time"))
	Import   = key1("import", "f\x00", array[[32]byte]("sha256"), "import of a tenant's file under way: how far it is")
	DailyJob = both(key0("retention", "r\x00", "the daily job: when it is due, and how far it has come"))
)

// Projects and policies.
var (
	Project        = key1("project", "p\x00", id("project"), "project with its settings")
	SettingsChange = once(key3("settings_change", "ps\x00", inc("project"), newestFirst("time"),
		array[[8]byte]("id"), "change of a project's settings: what each was before and is after"))
	Policy        = key1("policy", "g\x00", id("policy"), "policy: its versions, and which of them is live")
	PolicyVersion = key2("policy_version", "y\x00", id("policy"), u32("version"),
		"what a version's manifest and its checks say")
	PolicyUsage = key0("policy_usage", "q\x00", "how many policy versions the tenant keeps, and their bytes")
	Module      = both(once(key1("module", "w\x00", array[[32]byte]("sha256"),
		"policy module; those that come with Mneme lie in the system space")))
	BuiltIn = system(key1("built_in", "n\x00", id("policy"), "policy that comes with Mneme: its versions"))
)

// Sessions and the decisions made for them.
var (
	Session = key2("session", "h\x00", inc("project"), id("session"),
		"head of a session: counts and the incarnation of its messages")
	OpenCalls = key2("open_calls", "o\x00", inc("project"), id("session"),
		"the session's open calls, with what their results need")
	Body = once(key2("body", "m\x00", inc("session").then("b"), u64("seq"),
		"message: its header, its format and its JSON as posted"))
	Headers = key2("headers", "m\x00", inc("session").then("h"), u64("first"),
		"packed headers of one turn, or of a part that was added to it, by the first message")
	OpenTurn = rewritten(key2("open_turn", "m\x00", inc("session").then("o"), array[[16]byte]("response"),
		"what was said in a turn up to a response that calls tools, for clients that send what is new alone"))
	Summary   = key2("summary", "m\x00", inc("session").then("s"), u32("version"), "version of the running summary")
	Effective = key3("effective", loose+"e", inc("project"), u16("day"), array[[16]byte]("hash"),
		"settings and pinned pipeline that decisions of the day name by their hash")
	Trace = key3("trace", loose+"t", inc("project"), u16("day"), array[[16]byte]("hash"),
		"the newest window of a session, viewer and format in hashes, for the next one to be compared with")
	Calibration = key3("calibration", loose+"c", inc("project"), u16("day"), array[[16]byte]("hash"),
		"how many tokens a model's provider counted on that day, and how many Mneme did")
	Stats = key3("stats", loose+"h", inc("project"), u32("hour"), array[[8]byte]("server"),
		"what one server counted of the project in that hour since 1970: turns, windows, tokens")
	Decision = rewritten(key4("decision", loose+"d", inc("project"), u16("day"), inc("session"),
		array[[14]byte]("unique"), "decision: what a window was made of"))
	DecisionRow = key4("decision_row", loose+"r", inc("project"), u16("day"), array[[14]byte]("unique"), inc("session"),
		"what lists show of the decision, by time")
	Response = key2("response", "R\x00", inc("project"), array[[16]byte]("hash"),
		"where a provider's response lies in a session, for requests that go on from it")

	// SessionRecords are the messages of a session, their headers, its open turns and its summary.
	SessionRecords = group[ident.Incarnation]{"m\x00", inc("session")}
)

// Memories and recall indexes. A space is m for memories or t for the transcript. A document's place is the
// number of its namespace, a stream and a position in it. The key of a memory is its full name, with its namespace.
var (
	Memory = rewritten(key2("memory", "e\x00r", inc("project"), fullName("key"),
		"memory: what it says of itself, and its content"))
	MemoryVersion = once(key3("memory_version", "e\x00h", inc("project"), fullName("key"), u32("version"),
		"what a memory was before"))
	MemoryTime = key3("memory_time", "e\x00t", inc("project"), newestFirst("time"), lastFullName("key"),
		"memories by their time, since 1970: what filters ask of them")
	RecallDocument = key4("recall_document", "v\x00", inc("project"), recallSpace("d"), stream, u64("pos"),
		"document whose postings are in blocks")
	RecallFresh = key5("recall_fresh", "v\x00", inc("project"), recallSpace("f"), u32("epoch"), stream,
		u64("pos"), "document whose postings are not in blocks yet")
	RecallEpoch = key2("recall_epoch", "v\x00", inc("project"), recallSpace("w"),
		"epoch that documents are written in until their postings are in blocks")
	RecallDead = key5("recall_dead", "v\x00", inc("project"), recallSpace("x"), u32("epoch"), stream,
		u64("pos"), "the document is gone, but its postings are not: how many words it has")
	RecallBlock = key5("recall_block", "v\x00", inc("project"), recallSpace("t"), term("term"), stream,
		u64("pos"), "block of a term's postings, by the place of its first")
	RecallMemory = key2("recall_memory", "v\x00", inc("project").then("mk"), lastFullName("key"),
		"where a memory's passages are")
	RecallStream = key3("recall_stream", "v\x00", inc("project"), recallSpace("n"), stream,
		"next position of a stream, and what of a session is indexed")
	RecallLanguage = key3("recall_language", "v\x00", inc("project"), recallSpace("l"), anything("language"),
		"the words of some document were stemmed in that language")
	RecallNamespaceLanguage = key4("recall_namespace_language", "v\x00", inc("project"), recallSpace("r"),
		u64("namespace"), anything("language"), "the same of some document in the namespace with that number")
	RecallNamespace = key3("recall_namespace", "v\x00", inc("project"), recallSpace("p"), anything("path"),
		"how many documents of the namespace are in blocks, and their length")
	RecallCorpus = key2("recall_corpus", "v\x00", inc("project"), recallSpace("s"),
		"how many documents are in blocks, and their length")
	RecallUnembedded = key4("recall_unembedded", "v\x00", inc("project"), recallSpace("u"), stream, u64("pos"),
		"a document in blocks that waits for its vector")
	RecallModel = key2("recall_model", "v\x00", inc("project"), recallSpace("v"),
		"model that vectors are made by, their dimensions, and where documents are still to be told to wait for theirs")
	RecallBits = key4("recall_bits", "v\x00", inc("project"), recallSpace("y"), stream, u64("pos"),
		"signs of the dimensions of a document's vector, behind the tag of its model")
	RecallVector = key4("recall_vector", "v\x00", inc("project"), recallSpace("z"), stream, u64("pos"),
		"a document's vector as one byte for each dimension, behind the tag of its model")

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
	Board = key1("board", "b\x00", id("board"), "board: its name, its counts and the incarnation of what is on it")
	Entry = once(key2("board_entry", "c\x00", inc("board").then("e"), u64("seq"), "entry"))

	EntryTime = key3("board_time", "c\x00", inc("board").then("d"), earliestFirst("time"), u64("seq"),
		"entries by time")
	Postings = key3("board_postings", "c\x00", inc("board").then("i"), term("term"), u64("block"),
		"which of a block of 1,024 entries have a term: all, a tag or a word")
	BoardAgent = key2("board_agent", "c\x00", inc("board").then("g"), id("agent"),
		"agent of the board, with the head of the agent's inbox")
	BoardValue = key2("board_value", "c\x00", inc("board").then("v"), id("key"),
		"value that the board keeps under a key")
	Notice = key3("board_notice", "c\x00", inc("board").then("n"), inc("inbox"), u64("seq"),
		"notification in an inbox")

	// BoardRecords are all that is on a board.
	BoardRecords = group[ident.Incarnation]{"c\x00", inc("board")}
)

// Jobs: records that say that there is work, until the work is done.
var (
	SessionJob   = key1("job_session", JobPrefix+"s", inc("session"), "sweep of a session's messages")
	ProjectJob   = key1("job_project", JobPrefix+"p", inc("project"), "sweep of a project's sessions and memories")
	DecisionsJob = key1("job_decisions", JobPrefix+"d", inc("project"), "decisions up to a time are to be emptied")
	HeadlessJob  = key1("job_headless", JobPrefix+"h", inc("project"),
		"look for messages of sessions whose damaged head was deleted")
	StagedSessionJob = key2("job_import", stagedPrefix, earliestFirst("time").then(JobPrefix+"s"), inc("session"),
		"session that is staged; it is swept at that time unless it is revealed")
	StagedBoardJob = key2("job_import_board", stagedPrefix, earliestFirst("time").then(JobPrefix+"cc\x00"),
		inc("board"), "board that is staged; it is swept at that time unless it is revealed")
	SummaryJob = key1("job_summary", JobPrefix+"y", inc("session"), "summary to be made or extended")
	FoldJob    = key2("job_fold", JobPrefix+"f", inc("project"), oneOf("space", "mt"),
		"documents to be put into blocks, and how far a damaged index is built again")
	UnindexedJob = key2("job_unindexed", JobPrefix+"u", inc("project"), inc("session"),
		"session with messages that are not indexed")
	BacklogJob = key1("job_backlog", JobPrefix+"b", inc("project"),
		"the project's sessions that are still to be marked so")
	BoardJob = key1("job_board", JobPrefix+"cc\x00", inc("board"), "sweep of what is on a deleted board")
	InboxJob = key2("job_inbox", JobPrefix+"cc\x00", inc("board").then("n"), inc("inbox"),
		"sweep of a deleted inbox")
	BoardDueJob = key2("job_board_due", JobPrefix+"e", earliestFirst("due"), lastID("board"),
		"look for what is past a board's retention")
	TenantJob = system(key1("job_tenant", JobPrefix+"t", anything("tenant"), "sweep of a deleted tenant"))
)

// JobPrefix begins the key of every job.
const JobPrefix = "j\x00"
