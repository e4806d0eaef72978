package engine

// indexUnits are the background work of the recall index: documents on their way into blocks.
func (e *Engine) indexUnits() []unit { return []unit{anyJob(kindFoldJob.All(), e.stepFold)} }
