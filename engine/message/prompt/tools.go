package prompt

import (
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
)

// Tools hashes a provider's list of tools, and counts the cache breakpoints in it. The zero Hash means that there is no
// list. A tool that is loaded only when it is searched for may come and go without changing a prompt, so it is ignored.
func Tools(list []json.RawMessage) (named prefix.Hash, breakpoints int) {
	if list == nil {
		return prefix.Hash{}, 0
	}
	walk := prefix.Start(prefix.Hash{}, prefix.Hash{})
	for _, raw := range list {
		var tool struct {
			Deferred   bool            `json:"defer_loading"`
			Breakpoint json.RawMessage `json:"cache_control"`
		}
		_ = json.Unmarshal(raw, &tool) // an invalid list was refused when it was counted
		if len(tool.Breakpoint) > 0 {
			breakpoints++
		}
		if !tool.Deferred {
			walk.Add(&prefix.Part{Digest: prefix.Digest(raw)})
		}
	}
	return walk.State, breakpoints
}
