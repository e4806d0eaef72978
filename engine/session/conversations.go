package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// ConversationStats describes how much history a project has.
type ConversationStats struct {
	ProjectID string     `json:"project_id"`
	Total     int        `json:"total"`
	OldestAt  *time.Time `json:"oldest_at"` // when the oldest conversation began; nil if there is none
}

// PurgeSpec asks to delete conversations of a project permanently.
type PurgeSpec struct {
	ProjectID     string
	OlderThanDays int  // days since the last activity; 0 for all conversations
	DryRun        bool // count only
}

// Purged is the result of a purge. With DryRun, it is what would have been deleted.
type Purged struct {
	DeletedConversations int  `json:"deleted_conversations"`
	OlderThanDays        int  `json:"older_than_days"`
	DryRun               bool `json:"dry_run"`
	// AsOf is set while the system's clock is implausibly far ahead: ages were computed as of this time instead.
	AsOf *time.Time `json:"as_of,omitempty"`
}

// Conversations returns how many conversations a project has, and since when. It returns not_found.
func (svc *Service) Conversations(ctx context.Context, c ident.Caller, projectID string) (ConversationStats, error) {
	out := ConversationStats{ProjectID: projectID}
	p, _, _, err := svc.projects.Read(ctx, c, projectID, nil)
	if err != nil {
		return out, err
	}
	for h, err := range svc.Heads(ctx, c.Tenant, p.Incarnation, "") {
		if err != nil {
			return out, err
		}
		if !h.Counts(h.ID) {
			continue
		}
		out.Total++
		if out.OldestAt == nil || h.Created.Before(*out.OldestAt) {
			out.OldestAt = &h.Created
		}
	}
	return out, nil
}

// purge describes a removal of whole conversations, requested by a person or by retention.
type purge struct {
	caller  ident.Caller
	project string
	before  time.Time // delete conversations whose last activity was before; zero means all
	dryRun  bool
	action  string // for the audit log
}

func (p *purge) due(id string, h *Head) bool {
	return p.before.IsZero() || h.Counts(id) && h.LastActivity.Before(p.before)
}

// maxPurgeDays is the largest age, in days.
const maxPurgeDays = 36_500

// PurgeConversations deletes a project's conversations that had no turn for the given number of days, with their turns
// and decisions. They can no longer be read when it returns; their records are removed in the background. A
// conversation that gets a turn in the meantime is kept. It returns out_of_range for the age, and not_found.
func (svc *Service) PurgeConversations(ctx context.Context, c ident.Caller, spec PurgeSpec) (Purged, error) {
	out := Purged{OlderThanDays: spec.OlderThanDays, DryRun: spec.DryRun}
	if spec.OlderThanDays < 0 || spec.OlderThanDays > maxPurgeDays {
		return out, fault.InvalidField("older_than_days", "out_of_range", "must be from 0 to %d", maxPurgeDays)
	}
	p, _, _, err := svc.projects.Read(ctx, c, spec.ProjectID, nil)
	if err != nil {
		return out, err
	}
	job := &purge{caller: c, project: spec.ProjectID, dryRun: spec.DryRun, action: "conversations.purge"}
	if spec.OlderThanDays > 0 {
		out.AsOf = svc.db.AsOf()
		job.before = daysAgo(svc.db.Settled(), spec.OlderThanDays)
	}
	var after []byte
	for more := true; more; more = after != nil {
		var n int
		if n, after, err = svc.purgeSome(ctx, job, p.Incarnation, after); err != nil {
			return out, err
		}
		out.DeletedConversations += n
	}
	if spec.OlderThanDays == 0 && !spec.DryRun {
		err = svc.dropDecisions(ctx, c, spec.ProjectID)
	}
	return out, err
}

func daysAgo(now time.Time, days int) time.Time {
	return now.Add(-time.Duration(days) * 24 * time.Hour)
}

// purgeSome deletes the conversations that are due among the headsAtOnce sessions that follow the id after. It returns
// how many were deleted, and the id to continue after; nil at the end.
func (svc *Service) purgeSome(ctx context.Context, p *purge, pinc ident.Incarnation, after []byte) (
	n int, next []byte, err error) {
	var due []string
	seen, last := 0, ""
	for h, err := range svc.Heads(ctx, p.caller.Tenant, pinc, string(after)) {
		if err != nil {
			return 0, nil, err
		}
		if seen == headsAtOnce {
			next = []byte(last)
			break
		}
		seen, last = seen+1, h.ID
		if p.due(h.ID, &h.Head) {
			due = append(due, h.ID)
			if h.Counts(h.ID) {
				n++
			}
		}
	}
	if p.dryRun || len(due) == 0 {
		return n, next, nil
	}
	n, err = svc.purgeApart(ctx, p, pinc, due)
	return n, next, err
}

// purgeApart is purge, but splits the work into smaller commits if other writers keep changing some of the sessions.
func (svc *Service) purgeApart(ctx context.Context, p *purge, pinc ident.Incarnation, ids []string) (int, error) {
	if len(ids) == 1 {
		unlock, err := svc.Lock(ctx, p.caller.Tenant, p.project, ids[0])
		if err != nil {
			return 0, err
		}
		defer unlock()
	}
	n, err := svc.purge(ctx, p, pinc, ids)
	contended, ok := errors.AsType[*fault.Error](err)
	if !ok || contended.Kind != fault.Unavailable || len(ids) == 1 {
		return n, err
	}
	one, err := svc.purgeApart(ctx, p, pinc, ids[:len(ids)/2])
	if err != nil {
		return one, err
	}
	two, err := svc.purgeApart(ctx, p, pinc, ids[len(ids)/2:])
	return one + two, err
}

// purge removes the sessions that are still due, with one entry in the audit log.
func (svc *Service) purge(ctx context.Context, p *purge, pinc ident.Incarnation, ids []string) (int, error) {
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = records.Session.Key(pinc, id)
	}
	var bytes uint64
	n, err := records.Update(ctx, svc.db, p.caller, ident.Once{}, func(t *records.Tx) (n int, err error) {
		rec, err := svc.projects.Project(t, p.caller, p.project)
		if err != nil || rec.Incarnation != pinc { // the project was deleted and made again; its sessions are gone
			return 0, err
		}
		if _, err := t.Get(keys...); err != nil { // all in one round trip
			return 0, err
		}
		bytes = 0
		for i, key := range keys {
			h, err := records.GetTx[Head](t, key)
			if err != nil {
				return 0, err
			}
			if h != nil && p.due(ids[i], h) {
				drop(t, pinc, ids[i], h)
				dropUnborn(t, pinc, ids[i])
				bytes += h.Bytes
				if h.Counts(ids[i]) {
					n++
				}
			}
		}
		if n == 0 {
			return 0, nil
		}
		return n, tenant.Audit(t, p.caller, p.action, p.project, p.describe(n))
	})
	if err == nil {
		svc.MessageUse.Add(p.caller.Tenant, records.Amount{Bytes: -int64(bytes)})
	}
	return n, err
}

func (p *purge) describe(n int) string {
	if p.before.IsZero() {
		return fmt.Sprintf("%d conversations, whatever their age", n)
	}
	return fmt.Sprintf("%d conversations without a turn since %s", n, p.before.Format(time.RFC3339))
}

// dropDecisions empties all decisions that a project has so far, including those of sessions that never came to exist:
// they hold texts of requests, too.
func (svc *Service) dropDecisions(ctx context.Context, c ident.Caller, projectID string) error {
	_, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (none struct{}, err error) {
		p, err := svc.projects.Project(t, c, projectID)
		if err == nil {
			until := binary.BigEndian.AppendUint64(nil, uint64(t.Now.UnixMilli())+1)
			t.Put(records.DecisionsJob.Key(p.Incarnation), until)
		}
		return none, err
	})
	return err
}

// expire removes the conversations that are older than their project's retention. It handles one project at a time: see
// project.OfEach.
func (svc *Service) expire(ctx context.Context, tenant string, p *project.Record, s project.Settings, at []byte) (
	int, []byte, error) {
	if s.ConversationRetentionDays == nil {
		return 0, nil, nil
	}
	job := &purge{caller: ident.Caller{Tenant: tenant}, project: p.ID, action: "conversations.expire",
		before: daysAgo(svc.db.Settled(), *s.ConversationRetentionDays)}
	return svc.purgeSome(ctx, job, p.Incarnation, at)
}
