package server

import (
	"reflect"

	"github.com/seed-0906e6bc/mneme/engine"
)

// shape says which way a schema's values go.
type shape uint8

const (
	// sent values are open: clients must bear new fields. A list in them is never null.
	sent shape = iota
	// received values are closed, and null says what leaving a field out says.
	received
	// patched values are closed, and each field may be left out; null is a value where the thing itself may be null.
	patched
)

// namedSchema is a component of the description that is made from a Go type.
type namedSchema struct {
	name  string
	shape shape
	typ   reflect.Type
}

func schemaOf[T any](name string, s shape) namedSchema {
	return namedSchema{name, s, reflect.TypeFor[T]()}
}

// namedSchemas lists the components that are made from Go types. Types that are not listed are described in place.
var namedSchemas = []namedSchema{
	schemaOf[status]("Status", sent),
	schemaOf[problem]("Problem", sent),

	schemaOf[engine.TurnRequest]("TurnRequest", received),
	schemaOf[engine.TurnResponse]("TurnResponse", sent),
	schemaOf[engine.Skipped]("Skipped", sent),
	schemaOf[engine.ContextRequest]("ContextRequest", received),
	schemaOf[engine.Viewer]("Viewer", received),
	schemaOf[engine.Budget]("Budget", received),
	schemaOf[engine.MemoriesRequest]("MemoriesRequest", received),
	schemaOf[engine.PipelineStep]("PipelineStep", received),
	schemaOf[window]("Window", sent),
	schemaOf[windowUsage]("Usage", sent),
	schemaOf[summaryUsed]("SummaryUsed", sent),
	schemaOf[[]recalledMemory]("RememberedMemories", sent),
	schemaOf[pipelineOutcome]("PipelineOutcome", sent),
	schemaOf[reportRow]("ReportRow", sent),
	schemaOf[decision]("Decision", sent),
	schemaOf[replay]("Replay", sent),

	schemaOf[engine.ProjectSpec]("ProjectSpec", received),
	schemaOf[engine.Project]("Project", sent),
	schemaOf[engine.List[engine.Project]]("ProjectList", sent),
	schemaOf[engine.Settings]("Settings", sent),
	schemaOf[settingsPatch]("SettingsPatch", patched),

	schemaOf[engine.SessionSpec]("SessionSpec", received),
	schemaOf[engine.Session]("Session", sent),
	schemaOf[engine.List[engine.Session]]("SessionList", sent),
	schemaOf[engine.Message]("Message", sent),
	schemaOf[engine.List[engine.Message]]("MessageList", sent),
	schemaOf[engine.SessionFile]("SessionFile", received),
	schemaOf[engine.SummaryAction]("SummaryAction", received),
	schemaOf[engine.SummaryAnswer]("SummaryAnswer", sent),

	schemaOf[engine.MemorySpec]("MemorySpec", received),
	schemaOf[engine.Memory]("Memory", sent),
	schemaOf[engine.List[engine.Memory]]("MemoryList", sent),
	schemaOf[engine.MemoryVersion]("MemoryVersion", sent),
	schemaOf[engine.List[engine.MemoryVersion]]("MemoryVersionList", sent),
	schemaOf[engine.Forgotten]("Forgotten", sent),
	schemaOf[engine.RecallQuery]("RecallQuery", received),
	schemaOf[engine.RecallHit]("RecallHit", sent),
	schemaOf[engine.RecallResult]("RecallResult", sent),
	schemaOf[toolList]("ToolList", sent),
	schemaOf[openAITool]("OpenAITool", sent),
	schemaOf[anthropicTool]("AnthropicTool", sent),
	schemaOf[engine.ToolCall]("ToolCall", received),
	schemaOf[engine.ToolResult]("ToolResult", sent),

	schemaOf[engine.Policy]("Policy", sent),
	schemaOf[engine.List[engine.Policy]]("PolicyList", sent),
	schemaOf[engine.VersionState]("VersionState", sent),
	schemaOf[engine.PolicyVersion]("PolicyVersion", sent),
	schemaOf[engine.LiveSpec]("LiveSpec", received),
	schemaOf[engine.PolicyRunRequest]("PolicyRunRequest", received),
	schemaOf[policyRun]("PolicyRun", sent),
	schemaOf[engine.PolicyReplayRequest]("PolicyReplayRequest", received),
	schemaOf[engine.PolicyReplay]("PolicyReplay", sent),
	schemaOf[engine.SessionReplay]("SessionReplay", sent),
	schemaOf[engine.ReplayTotals]("ReplayTotals", sent),
	schemaOf[engine.Compared]("Compared", sent),

	schemaOf[engine.BoardSpec]("BoardSpec", received),
	schemaOf[engine.Board]("Board", sent),
	schemaOf[engine.List[engine.Board]]("BoardList", sent),
	schemaOf[engine.BoardPost]("BoardPost", received),
	schemaOf[engine.BoardEntry]("BoardEntry", sent),
	schemaOf[engine.BoardPage]("BoardPage", sent),
	schemaOf[engine.BoardPurged]("BoardPurged", sent),
	schemaOf[engine.BoardStats]("BoardStats", sent),
	schemaOf[engine.BoardAgentSpec]("BoardAgentSpec", received),
	schemaOf[engine.BoardAgent]("BoardAgent", sent),
	schemaOf[engine.List[engine.BoardAgent]]("BoardAgentList", sent),
	schemaOf[engine.Notification]("Notification", sent),
	schemaOf[engine.InboxPage]("InboxPage", sent),
	schemaOf[engine.InboxAck]("InboxAck", received),
	schemaOf[engine.InboxAcked]("InboxAcked", sent),

	schemaOf[engine.KeySpec]("KeySpec", received),
	schemaOf[engine.Key]("Key", sent),
	schemaOf[engine.List[engine.Key]]("KeyList", sent),
	schemaOf[engine.KeyCreated]("KeyCreated", sent),
	schemaOf[engine.TenantSpec]("TenantSpec", received),
	schemaOf[engine.Tenant]("Tenant", sent),
	schemaOf[engine.List[engine.Tenant]]("TenantList", sent),
	schemaOf[engine.TenantCreated]("TenantCreated", sent),
	schemaOf[engine.ConversationStats]("ConversationStats", sent),
	schemaOf[engine.Purged]("Purged", sent),
	schemaOf[engine.RetentionRun]("RetentionRun", sent),
	schemaOf[engine.ImportReport]("ImportReport", sent),
	schemaOf[engine.Usage]("TenantUsage", sent),
	schemaOf[engine.AuditEntry]("AuditEntry", sent),
	schemaOf[engine.List[engine.AuditEntry]]("AuditList", sent),
}
