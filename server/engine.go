package server

import (
	"context"
	"encoding/json"
	"io"

	"github.com/seed-0906e6bc/mneme/engine"
)

// Engine is what the edge asks of the domain; *engine.Engine has it. Errors meant for clients are *engine.Error, all
// others are internal.
type Engine interface {
	Authenticate(ctx context.Context, token string) (engine.Caller, error)
	Ready(ctx context.Context) error

	TenantExists(ctx context.Context, id string) (bool, error)
	CreateTenant(ctx context.Context, once engine.Once, spec engine.TenantSpec) (engine.TenantCreated, error)
	ListTenants(ctx context.Context, page engine.Page) (engine.List[engine.Tenant], error)
	DeleteTenant(ctx context.Context, id string) error

	CreateKey(ctx context.Context, c engine.Caller, once engine.Once, spec engine.KeySpec) (engine.KeyCreated, error)
	ListKeys(ctx context.Context, c engine.Caller, page engine.Page) (engine.List[engine.Key], error)
	DeleteKey(ctx context.Context, c engine.Caller, id string) error
	RotateKey(ctx context.Context, c engine.Caller, once engine.Once, id string) (engine.KeyCreated, error)

	PutProject(ctx context.Context, c engine.Caller, id string, spec engine.ProjectSpec) (
		p engine.Project, created bool, err error)
	GetProject(ctx context.Context, c engine.Caller, id string) (engine.Project, error)
	ListProjects(ctx context.Context, c engine.Caller, page engine.Page) (engine.List[engine.Project], error)
	DeleteProject(ctx context.Context, c engine.Caller, id string) error
	Settings(ctx context.Context, c engine.Caller, project string) (engine.Settings, error)
	PatchSettings(ctx context.Context, c engine.Caller, project string, patch json.RawMessage) (engine.Settings, error)

	CreateSession(ctx context.Context, c engine.Caller, once engine.Once, project string, spec engine.SessionSpec) (
		engine.Session, error)
	ListSessions(ctx context.Context, c engine.Caller, project string, page engine.Page) (
		engine.List[engine.Session], error)
	GetSession(ctx context.Context, c engine.Caller, project, id string) (engine.Session, error)
	DeleteSession(ctx context.Context, c engine.Caller, project, id string) error
	ListMessages(ctx context.Context, c engine.Caller, project, session string, page engine.Page, descending bool) (
		engine.List[engine.Message], error)
	ExportSession(ctx context.Context, c engine.Caller, project, session string) (engine.SessionFile, error)
	ImportSession(ctx context.Context, c engine.Caller, once engine.Once, project string, file engine.SessionFile) (
		engine.Session, error)

	ActOnSummary(ctx context.Context, c engine.Caller, once engine.Once, project, session string,
		act engine.SummaryAction) (engine.SummaryAnswer, error)
	Usage(ctx context.Context, c engine.Caller) (engine.Usage, error)

	AppendTurn(ctx context.Context, c engine.Caller, once engine.Once, project string, req engine.TurnRequest) (
		engine.TurnResponse, error)
	// Assemble, Decision and Replay append a JSON body to dst. raw and dst are the edge's again once they return.
	Assemble(ctx context.Context, c engine.Caller, project string, req *engine.ContextRequest, raw, dst []byte) (
		[]byte, error)
	Decision(ctx context.Context, c engine.Caller, project, id string, dst []byte) ([]byte, error)
	Replay(ctx context.Context, c engine.Caller, project, id string, dst []byte) ([]byte, error)

	UploadPolicy(ctx context.Context, c engine.Caller, once engine.Once, name string, code []byte) (
		v engine.PolicyVersion, created bool, err error)
	ListPolicies(ctx context.Context, c engine.Caller, page engine.Page) (engine.List[engine.Policy], error)
	GetPolicy(ctx context.Context, c engine.Caller, name string) (engine.Policy, error)
	DeletePolicy(ctx context.Context, c engine.Caller, name string) error
	SetLive(ctx context.Context, c engine.Caller, name string, spec engine.LiveSpec) (engine.Policy, error)
	GetPolicyVersion(ctx context.Context, c engine.Caller, name string, version int) (engine.PolicyVersion, error)
	DeletePolicyVersion(ctx context.Context, c engine.Caller, name string, version int) error
	// RunPolicy appends a JSON body to dst.
	RunPolicy(ctx context.Context, c engine.Caller, name string, version int, req *engine.PolicyRunRequest, dst []byte) (
		[]byte, error)
	ReplayPolicy(ctx context.Context, c engine.Caller, name string, version int, req engine.PolicyReplayRequest) (
		engine.PolicyReplay, error)

	Conversations(ctx context.Context, c engine.Caller, project string) (engine.ConversationStats, error)
	PurgeConversations(ctx context.Context, c engine.Caller, spec engine.PurgeSpec) (engine.Purged, error)
	RunRetention(ctx context.Context, c engine.Caller) (engine.RetentionRun, error)
	// ExportTenant writes while it runs; MayExport refuses before the first byte.
	MayExport(c engine.Caller) error
	ExportTenant(ctx context.Context, c engine.Caller, w io.Writer) error
	ImportTenant(ctx context.Context, c engine.Caller, once engine.Once, spec engine.ImportSpec, body io.Reader) (
		engine.ImportReport, error)
	ListAudit(ctx context.Context, c engine.Caller, page engine.Page) (engine.List[engine.AuditEntry], error)
}
