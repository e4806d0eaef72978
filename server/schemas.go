package server

import (
	"reflect"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/catalogue"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prompt"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"

	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/engine/insight/stats"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
	"github.com/seed-0906e6bc/mneme/foreign"
)

// shape is the direction of a schema's values.
type shape uint8

const (
	// sent values may have fields that are not described; clients must ignore them. Their lists are never null.
	sent shape = iota
	// received values may have only described fields; null means the same as an absent field.
	received
	// patched values may have only described fields, all optional; null sets a field that can be null.
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

// namedSchemas lists the Go types that are components. Other types are described inline.
var namedSchemas = []namedSchema{
	schemaOf[status]("Status", sent),
	schemaOf[problem]("Problem", sent),

	schemaOf[session.TurnRequest]("TurnRequest", received),
	schemaOf[session.TurnResponse]("TurnResponse", sent),
	schemaOf[chat.Skipped]("Skipped", sent),
	schemaOf[window.Request]("ContextRequest", received),
	schemaOf[ident.Viewer]("Viewer", received),
	schemaOf[window.Budget]("Budget", received),
	schemaOf[window.MemoryRequest]("MemoriesRequest", received),
	schemaOf[project.PipelineStep]("PipelineStep", received),
	schemaOf[window.Answer]("Window", sent),
	schemaOf[decision.Usage]("Usage", sent),
	schemaOf[prompt.ThinkingLeft]("ThinkingLeft", sent),
	schemaOf[window.SummaryUsed]("SummaryUsed", sent),
	schemaOf[[]window.RecalledMemory]("RememberedMemories", sent),
	schemaOf[decision.Step]("PipelineOutcome", sent),
	schemaOf[decision.ReportRow]("ReportRow", sent),
	schemaOf[lab.Explanation]("Decision", sent),
	schemaOf[decision.Call]("ProxiedCall", sent),
	schemaOf[decision.Spent]("ProviderUsage", sent),
	schemaOf[decision.Calibration]("ModelCalibration", sent),
	schemaOf[window.Replayed]("Replay", sent),
	schemaOf[lab.Recorded]("DecisionCase", sent),
	schemaOf[lab.ForkRequest]("DecisionForkRequest", received),
	schemaOf[lab.Forked]("DecisionFork", sent),
	schemaOf[lab.DiffRequest]("WindowDiffRequest", received),
	schemaOf[lab.DiffSide]("WindowDiffSide", received),
	schemaOf[lab.Diff]("WindowDiff", sent),
	schemaOf[lab.DiffedWindow]("DiffedWindow", sent),
	schemaOf[lab.WhyNotRequest]("WhyNotRequest", received),
	schemaOf[lab.WhyNot]("WhyNot", sent),
	schemaOf[lab.Enough]("Enough", sent),
	schemaOf[lab.SettingsReplayRequest]("SettingsReplayRequest", received),
	schemaOf[lab.SettingsReplay]("SettingsReplay", sent),
	schemaOf[decision.Row]("DecisionRow", sent),
	schemaOf[records.List[decision.Row]]("DecisionList", sent),

	schemaOf[project.Spec]("ProjectSpec", received),
	schemaOf[project.NewSpec]("NewProject", received),
	schemaOf[project.Project]("Project", sent),
	schemaOf[records.List[project.Project]]("ProjectList", sent),
	schemaOf[project.Settings]("Settings", sent),
	schemaOf[settingsPatch]("SettingsPatch", patched),
	schemaOf[settingsShown]("SettingsShown", sent),
	schemaOf[provider.Spec]("Upstream", received),
	schemaOf[provider.Profile]("UpstreamProfile", received),
	schemaOf[provider.Origin]("ProfileValue", sent),

	schemaOf[stats.Series]("ProjectStats", sent),
	schemaOf[stats.Row]("ProjectStatsRow", sent),
	schemaOf[stats.Figures]("ProjectFigures", sent),
	schemaOf[project.SettingsChange]("SettingsChange", sent),
	schemaOf[records.List[project.SettingsChange]]("SettingsHistory", sent),

	schemaOf[session.Spec]("SessionSpec", received),
	schemaOf[session.Session]("Session", sent),
	schemaOf[session.Imported]("ImportedSession", sent),
	schemaOf[catalogue.Row]("SessionRow", sent),
	schemaOf[records.List[catalogue.Row]]("SessionList", sent),
	schemaOf[session.Message]("Message", sent),
	schemaOf[records.List[session.Message]]("MessageList", sent),
	schemaOf[session.File]("SessionFile", received),
	schemaOf[session.RewindRequest]("RewindRequest", received),
	schemaOf[session.Rewound]("Rewound", sent),
	schemaOf[session.Erased]("Erased", sent),
	schemaOf[session.ForkRequest]("ForkRequest", received),
	schemaOf[summary.Action]("SummaryAction", received),
	schemaOf[summary.Answer]("SummaryAnswer", sent),

	schemaOf[memory.Spec]("MemorySpec", received),
	schemaOf[memory.Changes]("MemoryPatch", patched),
	schemaOf[memory.Memory]("Memory", sent),
	schemaOf[records.List[memory.Memory]]("MemoryList", sent),
	schemaOf[memory.Version]("MemoryVersion", sent),
	schemaOf[records.List[memory.Version]]("MemoryVersionList", sent),
	schemaOf[memory.Why]("MemoryWhy", sent),
	schemaOf[memory.ForgetMatching]("ForgetMatching", received),
	schemaOf[memory.ForgottenMatching]("ForgottenMatching", sent),
	schemaOf[records.List[memory.Namespace]]("NamespaceList", sent),
	schemaOf[recall.Query]("RecallQuery", received),
	schemaOf[recall.Hit]("RecallHit", sent),
	schemaOf[recall.Result]("RecallResult", sent),
	schemaOf[toolList]("ToolList", sent),
	schemaOf[tools.Call]("ToolCall", received),
	schemaOf[tools.Result]("ToolResult", sent),

	schemaOf[policy.Policy]("Policy", sent),
	schemaOf[records.List[policy.Policy]]("PolicyList", sent),
	schemaOf[policy.VersionState]("VersionState", sent),
	schemaOf[policy.Version]("PolicyVersion", sent),
	schemaOf[policy.LiveSpec]("LiveSpec", received),
	schemaOf[lab.RunRequest]("PolicyRunRequest", received),
	schemaOf[lab.Ran]("PolicyRun", sent),
	schemaOf[lab.ReplayRequest]("PolicyReplayRequest", received),
	schemaOf[lab.Replay]("PolicyReplay", sent),
	schemaOf[lab.SessionReplay]("SessionReplay", sent),
	schemaOf[lab.Totals]("ReplayTotals", sent),
	schemaOf[lab.Compared]("Compared", sent),
	schemaOf[lab.PrefixKept]("PrefixKept", sent),
	schemaOf[lab.FactsKept]("FactsKept", sent),
	schemaOf[lab.CallCost]("CallCost", sent),

	schemaOf[board.Spec]("BoardSpec", received),
	schemaOf[board.Board]("Board", sent),
	schemaOf[records.List[board.Board]]("BoardList", sent),
	schemaOf[board.Post]("BoardPost", received),
	schemaOf[board.Entry]("BoardEntry", sent),
	schemaOf[board.Page]("BoardPage", sent),
	schemaOf[board.Purged]("BoardPurged", sent),
	schemaOf[board.Stats]("BoardStats", sent),
	schemaOf[board.ValueSpec]("BoardValueSpec", received),
	schemaOf[board.Value]("BoardValue", sent),
	schemaOf[records.List[board.Value]]("BoardValueList", sent),
	schemaOf[board.AgentSpec]("BoardAgentSpec", received),
	schemaOf[board.Agent]("BoardAgent", sent),
	schemaOf[records.List[board.Agent]]("BoardAgentList", sent),
	schemaOf[board.Notification]("Notification", sent),
	schemaOf[board.InboxPage]("InboxPage", sent),
	schemaOf[board.InboxAck]("InboxAck", received),
	schemaOf[board.InboxAcked]("InboxAcked", sent),

	schemaOf[identity]("Identity", sent),
	schemaOf[tenant.KeySpec]("KeySpec", received),
	schemaOf[tenant.Key]("Key", sent),
	schemaOf[records.List[tenant.Key]]("KeyList", sent),
	schemaOf[tenant.KeyCreated]("KeyCreated", sent),
	schemaOf[SignInRequest]("SignInRequest", received),
	schemaOf[tenant.SignedIn]("SignedIn", sent),
	schemaOf[tenant.SignInLink]("SignInLink", sent),
	schemaOf[tenant.Spec]("TenantSpec", received),
	schemaOf[tenant.Tenant]("Tenant", sent),
	schemaOf[records.List[tenant.Tenant]]("TenantList", sent),
	schemaOf[tenant.Created]("TenantCreated", sent),
	schemaOf[session.ConversationStats]("ConversationStats", sent),
	schemaOf[session.Purged]("Purged", sent),
	schemaOf[jobs.RetentionRun]("RetentionRun", sent),
	schemaOf[transfer.ImportReport]("ImportReport", sent),
	schemaOf[foreign.Report]("ForeignReport", sent),
	schemaOf[foreign.FileReport]("ForeignFile", sent),
	schemaOf[foreign.Counts]("ForeignCounts", sent),
	schemaOf[tenant.Usage]("TenantUsage", sent),
	schemaOf[tenant.AuditEntry]("AuditEntry", sent),
	schemaOf[records.List[tenant.AuditEntry]]("AuditList", sent),
}
