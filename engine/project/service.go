package project

import (
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service keeps projects and their settings.
type Service struct {
	db *records.DB

	maxTokens int
	Memo      records.Memo[Record]
	// Pipelines is what the room of policies, which stands above this one, knows of pipelines.
	Pipelines Pipelines
}

// New makes the room. HistoryMaxTokens is the default of the setting of that name; 0: 8000. Whoever makes the rooms
// sets Pipelines.
func New(db *records.DB, historyMaxTokens int) *Service {
	svc := &Service{db: db, maxTokens: historyMaxTokens}
	if historyMaxTokens == 0 {
		svc.maxTokens = defaultHistoryMaxTokens
	}
	return svc
}
