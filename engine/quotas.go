package engine

// Quotas are the limits of each tenant's data; nil means no limit.
type Quotas struct {
	MessageBytes   *int64 `json:"message_bytes"`
	Memories       *int   `json:"memories"`
	MemoryBytes    *int64 `json:"memory_bytes"`
	PolicyVersions *int   `json:"policy_versions"`
	PolicyBytes    *int64 `json:"policy_bytes"`
}

func quotasOf(o *Options) Quotas {
	policies := o.Policies.OrDefault()
	return Quotas{MessageBytes: bound(o.MessageBytes), Memories: bound(o.Memories.Count),
		MemoryBytes: bound(o.Memories.Bytes), PolicyVersions: bound(policies.Versions), PolicyBytes: bound(policies.Bytes)}
}

// bound returns a pointer to n, or nil if n is 0.
func bound[N int | int64](n N) *N {
	if n == 0 {
		return nil
	}
	return &n
}

// Quotas returns the limits of each tenant's data.
func (e *Engine) Quotas() Quotas { return e.quotas }
