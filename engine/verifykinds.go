package engine

// recordKind says how Verify checks the records of a kind, by the kind's name in kinds.go.
type recordKind struct {
	name string
	// check holds a record, in the order of keys, against those before it and notes what later ones need.
	check func(s *space, key, value []byte)
	// damaged does so for one that fails its checksum, where that matters to others; nil elsewhere.
	damaged func(s *space, key []byte)
}

func recordKinds() []recordKind {
	return []recordKind{
		{"body", (*space).body, (*space).damagedBody},
		{"headers", (*space).headers, (*space).damagedHeaders},
		{"summary", (*space).summary, (*space).damagedSummary},
		{"decision", (*space).decision, (*space).damagedDecision},
		{"effective", (*space).effective, (*space).damagedEffective},
		{"session", (*space).head, (*space).damagedHead},
		{"open_calls", (*space).openCalls, (*space).damagedOpenCalls},
		{"idempotent", (*space).once, (*space).expires},
		{"expiry", (*space).expiry, (*space).damagedExpiry},
		{"audit", (*space).auditEntry, (*space).expires},
		{"live", (*space).liveMark, nil},
		{"key", (*space).apiKey, (*space).damagedKey},
		{"key_use", (*space).keyUse, nil},
		{"project", (*space).project, (*space).damagedProject},
		{"job_session", (*space).sessionJob, (*space).damagedSessionJob},
		{"job_project", (*space).projectJob, (*space).damagedProjectJob},
		{"job_headless", (*space).headlessJob, (*space).damagedHeadlessJob},
		{"job_import", (*space).importJob, (*space).damagedImportJob},
		{"job_summary", (*space).summaryJob, nil},
		{"job_decisions", (*space).decisionsJob, nil},
		{"retention", (*space).retention, nil},
		{"memory", (*space).memory, (*space).damagedMemory},
		{"memory_version", (*space).memory, (*space).damagedMemory},
		{"memory_time", (*space).memoryTime, (*space).damagedMemoryTime},
		{"recall_document", (*space).recallDoc, (*space).damagedRecallDoc},
		{"recall_fresh", (*space).recallDoc, (*space).damagedRecallDoc},
		{"recall_epoch", (*space).recallEpoch, (*space).damagedRecallEpoch},
		{"recall_dead", (*space).recallDead, (*space).damagedRecallDead},
		{"recall_block", (*space).recallBlock, (*space).damagedRecallBlock},
		{"recall_memory", (*space).recallMemory, (*space).damagedRecallMemory},
		{"recall_stream", (*space).recallStream, (*space).damagedRecallStream},
		{"recall_language", (*space).recallLanguage, nil},
		{"recall_corpus", (*space).recallCorpus, (*space).damagedRecallCorpus},
		{"job_fold", (*space).foldJob, (*space).damagedFoldJob},
		{"job_unindexed", (*space).unindexedJob, (*space).damagedUnindexedJob},
		{"job_backlog", (*space).backlogJob, (*space).damagedBacklogJob},
		{"board", (*space).board, (*space).damagedBoard},
		{"board_entry", (*space).boardEntry, (*space).damagedBoardEntry},
		{"board_time", (*space).boardTime, (*space).damagedBoardTime},
		{"board_postings", (*space).boardPostings, (*space).damagedBoardPostings},
		{"board_agent", (*space).boardAgent, (*space).damagedBoardAgent},
		{"board_notice", (*space).boardNotice, (*space).damagedBoardNotice},
		{"job_board", (*space).boardJob, (*space).damagedBoardJob},
		{"job_inbox", (*space).boardJob, (*space).damagedBoardJob},
		{"job_board_due", (*space).boardDueJob, (*space).damagedBoardDueJob},
		{"usage", (*space).usageDay, (*space).expires},
		{"policy", (*space).policy, (*space).damagedPolicy},
		{"policy_version", (*space).policyVersion, (*space).damagedVersion},
		{"policy_usage", (*space).policyUsage, (*space).damagedUsage},
		{"module", (*space).module, (*space).damagedModule},
		{"tenant", (*space).tenantRecord, (*space).damagedTenant},
		{"job_tenant", (*space).tenantJob, (*space).damagedTenantJob},
		{"built_in", (*space).builtIn, (*space).damagedBuiltIn},
	}
}

// idIn reads the client's id that a key ends with, after a prefix of so many bytes.
func idIn(key []byte, prefix int) string { return string(key[prefix : len(key)-1]) }
