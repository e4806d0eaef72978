package jobs

import (
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service does background work: units of work as records say them, and what goes by age once a day.
type Service struct {
	db *records.DB

	background    background
	wake          chan struct{} // a job was queued
	Units         []Unit        // of every tenant, and of the system space
	Dailies       []Daily
	SystemDailies []Daily
	livingTenant  func(record []byte) (id string, err error)
}

// New makes the room. LivingTenant reads a tenant's record: its id, empty where the tenant is being deleted. Whoever
// makes the rooms sets what work there is.
func New(db *records.DB, livingTenant func(record []byte) (id string, err error)) *Service {
	svc := &Service{db: db, wake: make(chan struct{}, 1), livingTenant: livingTenant}
	db.Committed = svc.QueueWork
	return svc
}
