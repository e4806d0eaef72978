// Package tools implements the tools that models call: memory_store, memory_recall, memory_get, memory_list and
// memory_forget, and Anthropic's own memory tool. tools.go describes them for models, call.go and look.go execute
// calls, files.go implements Anthropic's tool, and args.go reads what a model wrote as arguments.
//
// A mistake of the model is a Result that tells it how to do better. Only what the model cannot correct is an error.
package tools

import (
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Service executes the tools that models call. It is safe for concurrent use.
type Service struct {
	db       *records.DB
	projects *project.Service
	sessions *session.Service
	memories *memory.Service
	recalls  *recall.Service
}

// New returns a Service.
func New(db *records.DB, projects *project.Service, sessions *session.Service, memories *memory.Service,
	recalls *recall.Service) *Service {
	return &Service{db: db, projects: projects, sessions: sessions, memories: memories, recalls: recalls}
}

// Names of the tools.
const (
	nameStore  = "memory_store"
	NameRecall = "memory_recall"
	NameGet    = "memory_get"
	NameList   = "memory_list"
	nameForget = "memory_forget"
)

// Tool describes a tool to a model. The schemas are JSON Schema objects.
type Tool struct {
	Name         string
	Title        string
	Description  string
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	ReadOnly     bool // it changes nothing
	Destructive  bool // it may delete or replace existing data
	Idempotent   bool // repeating the call changes nothing more
}

// All returns the tools. Their descriptions are written for models.
func All() []Tool {
	return []Tool{
		{
			Name:  nameStore,
			Title: "Store a memory",
			Description: "Save a fact, a preference, a decision or a note to long-term memory, where it outlives " +
				"this conversation. Call it when the user asks you to remember something, or when you learn " +
				"something that will matter later. Keep one fact per key. Storing under a key that exists changes " +
				"what you name and keeps the rest, so use the same key to correct a fact. Never store passwords or other secrets.",
			InputSchema:  json.RawMessage(storeInput),
			OutputSchema: json.RawMessage(storeOutput),
			Destructive:  true,
		},
		{
			Name:  NameRecall,
			Title: "Recall memories",
			Description: "Search long-term memory, best match first. Call it before you answer whatever may depend " +
				"on earlier conversations: who the user is, what they prefer, what was decided or done. Search with " +
				"the words that the memory itself would use; if nothing fits, try other words before you say that " +
				"you do not know. To see the most recent memories give the query \"*\", or no query and a time in " +
				"since or until.",
			InputSchema:  json.RawMessage(recallInput),
			OutputSchema: json.RawMessage(recallOutput),
			ReadOnly:     true,
			Idempotent:   true,
		},
		{
			Name:  NameGet,
			Title: "Show a memory",
			Description: "Show one memory whole, by its exact key. Call it where memory_recall or memory_list show only " +
				"the beginning, or where you know the key.",
			InputSchema:  json.RawMessage(getInput),
			OutputSchema: json.RawMessage(getOutput),
			ReadOnly:     true,
			Idempotent:   true,
		},
		{
			Name:  NameList,
			Title: "List memories",
			Description: "List what is in long-term memory, the latest first, with the beginning of each. Call it to see " +
				"what there is at all; to find something, memory_recall is better.",
			InputSchema:  json.RawMessage(listInput),
			OutputSchema: json.RawMessage(listOutput),
			ReadOnly:     true,
			Idempotent:   true,
		},
		{
			Name:  nameForget,
			Title: "Forget a memory",
			Description: "Remove one memory for good, with everything it held before. Call it when the user asks you " +
				"to forget something, or when a memory is wrong and nothing replaces it. Take the exact key from " +
				"memory_recall. Forgetting a key that does not exist does no harm.",
			InputSchema:  json.RawMessage(forgetInput),
			OutputSchema: json.RawMessage(forgetOutput),
			Destructive:  true,
			Idempotent:   true,
		},
	}
}

// The schemas of arguments and of structured results.
const (
	namespaceInput = `"namespace":{"type":"array","items":{"type":"string"},"maxItems":16,"description":"Only if memories ` +
		`are shown with a namespace: its names, outermost first. The same key in another namespace is another memory."}`
	ifVersionInput = `"if_version":{"type":"integer","minimum":0,"description":"Only if the memory is still at this ` +
		`version, as memory_get shows it; 0: only if there is none. Otherwise nothing changes, and you are told what it ` +
		`says now."}`
	shownOutput = `"key":{"type":"string"},"namespace":{"type":"array","items":{"type":"string"}},` +
		`"content":{"type":"string"},"cut":{"type":"boolean"},"category":{"type":"string"},` +
		`"tags":{"type":"array","items":{"type":"string"}},"session_id":{"type":"string"},` +
		`"occurred_at":{"type":"string"},"updated_at":{"type":"string"},"trust":{"type":"string"}`

	storeInput = `{"type":"object","properties":{` +
		`"key":{"type":"string","description":"Short, stable name of this one fact, such as user_language or ` +
		`release_date. At most 128 bytes of printable characters."},` +
		`"content":{"type":"string","description":"What to remember: a full sentence that is clear by itself later, ` +
		`with names and dates instead of he, here or tomorrow."},` +
		`"category":{"type":"string","enum":["core","daily","conversation"],"default":"core","description":"core: ` +
		`lasting facts and preferences, never expire. daily: notes of the day, expire after some days. conversation: ` +
		`context of this conversation."},` +
		`"tags":{"type":"array","items":{"type":"string"},"maxItems":64,"description":"A few words to filter by ` +
		`later."},` +
		`"importance":{"type":"number","minimum":0,"maximum":1,"description":"How much it matters, 0 to 1; 0.5 if ` +
		`left out."},` +
		`"expires_at":{"type":"string","description":"When it is no longer true: a day as 2026-03-05, kept to its end, or a ` +
		`time as 2026-03-05T14:30:00Z. Not for core memories."},` +
		`"occurred_at":{"type":"string","description":"When what it says happened, written likewise."},` +
		`"standing":{"type":"boolean","description":"True for an instruction or a preference that holds from now on."},` +
		`"clear":{"type":"array","items":{"type":"string","enum":["expires_at","occurred_at","tags"]},"description":"Fields ` +
		`to empty. What you leave out stays as it is."},` + ifVersionInput + `,` +
		namespaceInput + `},"required":["key"],"additionalProperties":false}`
	storeOutput = `{"type":"object","properties":{` +
		`"key":{"type":"string"},"namespace":{"type":"array","items":{"type":"string"}},"category":{"type":"string"},"version":{"type":"integer"},` +
		`"created":{"type":"boolean"},"changed":{"type":"array","items":{"type":"string"}},` +
		`"expires_at":{"type":["string","null"]}` +
		`},"required":["key","category","version","created","expires_at"]}`

	recallInput = `{"type":"object","properties":{` +
		`"query":{"type":"string","description":"Words to search for, or \"*\" for the most recent memories."},` +
		`"since":{"type":"string","description":"Only memories of this time or later: a day as 2026-03-05, or a time ` +
		`as 2026-03-05T14:30:00Z. Also today, yesterday, or 3 days ago."},` +
		`"until":{"type":"string","description":"Only memories of this time or earlier, written likewise."},` +
		`"category":{"type":"string","enum":["core","daily","conversation"],"description":"Only memories of this ` +
		`category."},` +
		`"tags":{"type":"array","items":{"type":"string"},"description":"Only memories with all of these tags."},` +
		`"limit":{"type":"integer","minimum":1,"maximum":50,"default":5,"description":"How many memories at most."},` +
		namespaceInput + `},"additionalProperties":false}`
	recallOutput = `{"type":"object","properties":{` +
		`"memories":{"type":"array","items":{"type":"object","properties":{` +
		shownOutput + `,"score":{"type":"number"}},` +
		`"required":["key","content","category","tags","score","updated_at"]}}},"required":["memories"]}`

	getInput = `{"type":"object","properties":{` +
		`"key":{"type":"string","description":"The key of the memory, exactly as it is shown."},` + namespaceInput + `,` +
		`"offset":{"type":"integer","minimum":0,"description":"Where to begin, in bytes, if an earlier answer was cut."}` +
		`},"required":["key"],"additionalProperties":false}`
	getOutput = `{"type":"object","properties":{` + shownOutput + `,` +
		`"metadata":{"type":"object"},"value":{},"version":{"type":"integer"},"expires_at":{"type":["string","null"]},` +
		`"next_offset":{"type":"integer"}},` +
		`"required":["key","content","category","tags","updated_at","version","expires_at"]}`

	listInput = `{"type":"object","properties":{` +
		`"category":{"type":"string","enum":["core","daily","conversation"],"description":"Only memories of this ` +
		`category."},` +
		`"tags":{"type":"array","items":{"type":"string"},"description":"Only memories with all of these tags."},` +
		`"since":{"type":"string","description":"Only memories of this time or later, such as 2026-03-05 or yesterday."},` +
		`"until":{"type":"string","description":"Only memories of this time or earlier, written likewise."},` +
		`"limit":{"type":"integer","minimum":1,"maximum":50,"default":20,"description":"How many memories at most."},` +
		`"cursor":{"type":"string","description":"Where an earlier answer says to go on."},` + namespaceInput +
		`},"additionalProperties":false}`
	listOutput = `{"type":"object","properties":{"memories":{"type":"array","items":{"type":"object","properties":{` +
		shownOutput + `},"required":["key","content","category","tags","updated_at"]}},` +
		`"next_cursor":{"type":["string","null"]}},"required":["memories","next_cursor"]}`

	forgetInput = `{"type":"object","properties":{` +
		`"key":{"type":"string","description":"The key of the memory, exactly as memory_recall shows it."},` +
		ifVersionInput + `,` + namespaceInput + `},"required":["key"],"additionalProperties":false}`
	forgetOutput = `{"type":"object","properties":{` +
		`"key":{"type":"string"},"namespace":{"type":"array","items":{"type":"string"}},"forgotten":{"type":"boolean"}},"required":["key","forgotten"]}`
)
