package policy

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service keeps policy modules, their versions, and what of them is live.
type Service struct {
	db       *records.DB
	projects *project.Service

	host          Host
	registry      *registry
	policyRecords records.Memo[record]
	policyQuota   Quota
	breaker       breaker
	Prove         func(ctx context.Context, tenant string, p plan.Policy) (plan.Check, error)
}

// New makes the room, loads the built-in policies and keeps their bytes in the store. Whoever makes the rooms sets Prove.
func New(ctx context.Context, db *records.DB, projects *project.Service, host Host, q Quota, builtIns []BuiltIn,
) (*Service, error) {
	svc := &Service{db: db, projects: projects, host: host, policyQuota: q.orDefault()}
	return svc, svc.installBuiltIns(ctx, builtIns)
}
