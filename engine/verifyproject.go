package engine

import "github.com/seed-0906e6bc/mneme/engine/store"

// projectChecks are of projects and of the sweeps of deleted ones, whose jobs come first.
type projectChecks struct {
	pipelines []pipelineEntry
	searched  map[incarnation]bool // projects whose transcripts are
}

// pipelineEntry is a policy that a project's pipeline names.
type pipelineEntry struct{ project, policy string }

func newProjectChecks() *projectChecks { return &projectChecks{searched: map[incarnation]bool{}} }

func (c *projectChecks) checks() []recordCheck {
	return []recordCheck{{kind: "project", record: c.project}, {kind: "job_project", record: c.job}}
}

func (c *projectChecks) job(s *space, it store.Item) { s.swept[incarnation(it.Key[3:])] = true }

func (c *projectChecks) project(s *space, it store.Item) {
	var rec project
	if !s.decode(it, &rec) {
		s.lostProjects = s.lostProjects || it.Damaged
		return
	}
	id := idIn(it.Key, 2)
	if rec.ID != id || rec.Incarnation == (incarnation{}) {
		s.malformed("project %q calls itself %q, incarnation %s", id, rec.ID, rec.Incarnation)
	}
	if other, ok := s.projects[rec.Incarnation]; ok {
		s.mismatch("projects %q and %q have one incarnation", id, other)
	}
	s.projects[rec.Incarnation], c.searched[rec.Incarnation] = id, rec.Recalls
	if s.swept[rec.Incarnation] {
		s.mismatch("project %q lives and is to be swept", id)
	}
	var set struct {
		Pipeline []PipelineStep `json:"pipeline"`
	}
	if len(rec.Set) > 0 && s.decode(store.Item{Key: it.Key, Value: rec.Set}, &set) {
		for _, entry := range set.Pipeline {
			c.pipelines = append(c.pipelines, pipelineEntry{id, entry.Policy})
		}
	}
}

func (c *projectChecks) finish(*space) {}
