package engine

// recallUnits are the background work of recall: transcripts on their way into the index.
func (e *Engine) recallUnits() []unit {
	return []unit{anyJob(kindBacklogJob.All(), e.stepTranscripts), anyJob(kindUnindexedJob.All(), e.stepTranscripts)}
}
