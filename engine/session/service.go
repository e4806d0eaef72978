package session

import (
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service keeps sessions: their turns, messages and summaries.
type Service struct {
	db       *records.DB
	projects *project.Service

	tokens       Tokenizer
	heads        records.Memo[Head]
	MessageUse   *records.Tallies // nil: no quota
	messageQuota int64            // bytes
}

// New makes the room. MessageBytes bounds what the messages of each tenant may take, in bytes; 0: no bound.
func New(db *records.DB, projects *project.Service, tokens Tokenizer, messageBytes int64) *Service {
	svc := &Service{db: db, projects: projects, tokens: tokens, messageQuota: messageBytes}
	svc.MessageUse = svc.newMessageTallies(messageBytes)
	return svc
}
