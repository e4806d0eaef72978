package prompt

// ThinkingLeft says which of the models' thinking a window cannot show as it was.
type ThinkingLeft struct {
	// LeftOut counts thinking blocks that the provider would refuse, because they were made after another prompt.
	LeftOut int `json:"left_out"`
	// Strange counts reasoning items that are shown but that the provider may ignore, for the same reason.
	Strange int `json:"strange,omitempty"`
	// Needs is drop_block if a turn that is waiting for the model to continue has lost thinking. The model call must
	// then set thinking.block_binding.prefix_mismatch_behavior.
	Needs string `json:"needs,omitempty"`
}

// Left returns what a response says about thinking; nil if all of it is shown as it was.
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
