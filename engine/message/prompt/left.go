package prompt

// ThinkingLeft says what of the models' thinking a window cannot show as it was.
type ThinkingLeft struct {
	// LeftOut counts thinking blocks that the provider would refuse, because they were made behind another prompt.
	LeftOut int `json:"left_out"`
	// Strange counts reasoning items that are there, but that the provider may ignore for the same reason.
	Strange int `json:"strange,omitempty"`
	// Needs is drop_block where a turn that waits for the model to go on has lost thinking: the call then needs
	// thinking.block_binding.prefix_mismatch_behavior.
	Needs string `json:"needs,omitempty"`
}

// Left is what an answer says of thinking; nil: all is shown as it was.
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
