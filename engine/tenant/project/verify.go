package project

import (
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
	"slices"
)

// Checks verifies projects and the sweeps of deleted ones, whose jobs come first.
type Checks struct {
	Pipelines []PolicyName               // found in the pipelines of projects
	Searched  map[ident.Incarnation]bool // the projects whose transcripts are searched
}

// PolicyName is a policy in the pipeline of a project, with @version if it is pinned.
type PolicyName struct{ Project, Policy string }

// NewChecks returns the checks for one tenant.
func NewChecks() *Checks { return &Checks{Searched: map[ident.Incarnation]bool{}} }

// Checks lists the kinds of records that are checked here.
func (c *Checks) Checks() []verify.Check {
	return []verify.Check{{Kind: records.Project, Record: c.project}, {Kind: records.ProjectJob, Record: c.job},
		{Kind: records.SettingsChange, Record: c.change}}
}

func (c *Checks) job(s *verify.Space, it store.Item) {
	swept, _ := records.ProjectJob.Split(it.Key)
	s.Swept[swept] = true
}

func (c *Checks) project(s *verify.Space, it store.Item) {
	var rec Record
	if !s.Decode(it, &rec) {
		s.LostProjects = s.LostProjects || it.Damaged
		return
	}
	id, _ := records.Project.Split(it.Key)
	if rec.ID != id || rec.Incarnation == (ident.Incarnation{}) {
		s.Malformed("project %q calls itself %q, incarnation %s", id, rec.ID, rec.Incarnation)
	}
	if other, ok := s.Projects[rec.Incarnation]; ok {
		s.Mismatch("projects %q and %q have one incarnation", id, other)
	}
	s.Projects[rec.Incarnation], c.Searched[rec.Incarnation] = id, rec.Recalls
	if s.Swept[rec.Incarnation] {
		s.Mismatch("project %q lives and is to be swept", id)
	}
	var set struct {
		Pipeline      []PipelineStep `json:"pipeline"`
		AdmitPipeline []PipelineStep `json:"admit_pipeline"`
	}
	if len(rec.Set) > 0 && s.Decode(store.Item{Key: it.Key, Value: rec.Set}, &set) {
		for _, entry := range slices.Concat(set.Pipeline, set.AdmitPipeline) {
			c.Pipelines = append(c.Pipelines, PolicyName{id, entry.Policy})
		}
	}
}

// change compares a change of settings with its project.
func (c *Checks) change(s *verify.Space, it store.Item) {
	var rec storedSettingsChange
	pinc, at, id, ok := records.SettingsChange.Split(it.Key)
	s.About(pinc, "")
	switch {
	case !ok || !s.Belongs(pinc):
		s.Orphan("the project whose settings changed does not exist")
	case s.Decode(it, &rec) && (rec.At.UnixMilli() != at.UnixMilli() || rec.ID != changeID(id)):
		s.Malformed("the change %s is of %s and lies at %s, as %s", rec.ID, rec.At, at, changeID(id))
	}
}

// Finish does nothing.
func (c *Checks) Finish(*verify.Space) {}
