package prompt

// ThinkingLeft describes thinking of the models that a window cannot show unchanged.
type ThinkingLeft struct {
	// LeftOut counts thinking blocks that the provider would refuse, because they were made after another prompt.
	LeftOut int `json:"left_out"`
	// Strange counts reasoning items that are shown but that the provider may ignore, for the same reason.
	Strange int `json:"strange,omitempty"`
	// Needs is drop_block if a turn that is waiting for the model to continue has lost thinking. The model call must
	// then set thinking.block_binding.prefix_mismatch_behavior.
	Needs string `json:"needs,omitempty"`
}

// Left returns the part of a response about thinking, or nil if all of it is shown unchanged.
func (r *Result) Left() *ThinkingLeft {
	t := &ThinkingLeft{LeftOut: len(r.Stripped), Strange: len(r.Strange)}
	if t.LeftOut+t.Strange == 0 {
		return nil
	}
	if r.Loop {
		t.Needs = "drop_block"
	}
	return t
}
