package chat_test

import "github.com/seed-0906e6bc/mneme/engine/message/chat"

// transcripts are posted turns that together contain everything a format can express. They seed the fuzz targets.
var transcripts = []struct {
	format chat.Format
	posted string
}{
	{chat.OpenAIChat, `[
		{"role":"system","content":"not stored"},
		{"role":"user","content":"What is the weather?","name":"Ada","agent":"main","tags":["a","b"]},
		{"role":"assistant","content":null,"reasoning":"look it up","tool_calls":[
			{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}},
			{"id":"call:2","type":"function","function":{"name":"time","arguments":"not json"}}]},
		{"role":"tool","tool_call_id":"call:2","content":"noon"},
		{"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"{\"c\":4}"}]},
		{"role":"assistant","content":"4 degrees."}]`},
	{chat.OpenAIChat, `[
		{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"https://x/y.png"}},
			{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"input_audio","input_audio":{}},
			{"type":"file","file":{"file_id":"f"}}]},
		{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"no"}],"refusal":"never"},
		{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"custom","custom":{"name":"sh","input":"ls"}}]},
		{"role":"user","content":""},
		{"role":"user","content":null},
		{"role":"assistant","content":"for you","type":"a2a","from_agent":"main","to_agent":"helper","delegation_id":"d1"},
		{"role":"user","type":"a2a","from_agent":"helper","to_agent":"main"}]`},
	{chat.OpenAIChat, `[
		{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]},
		{"role":"tool","tool_call_id":"call_1","content":""},
		{"role":"assistant","content":" ","tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather"}}]}]`},
	{chat.AnthropicMessages, `[
		{"role":"user","content":"Compare the two."},
		{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"I will."},
			{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a"}},
			{"type":"tool_use","id":"toolu_2","name":"read","input":["not an object"]}]},
		{"role":"user","agent":"main","content":[{"type":"text","text":"Hurry."},
			{"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"content":"gone"},
			{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":""},{"type":"text","text":"A"},
				{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]},
		{"role":"assistant","content":[{"type":"text","text":"Done."},{"type":"text","text":"\n"}]}]`},
	{chat.AnthropicMessages, `[
		{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}},{"type":"document","source":{}},
			{"type":"text","text":"Both.","cache_control":{"type":"ephemeral"}}]},
		{"role":"assistant","content":[]},
		{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"list","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1"}]},
		{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"tool_use","id":"toolu_1","name":"list"}]}]`},
	{chat.OpenAIResponses, `[
		{"role":"developer","content":"not stored"},
		{"type":"message","role":"user","content":[{"type":"input_text","text":"Look"},
			{"type":"input_image","image_url":"data:image/png;base64,AAAA"},{"type":"input_file","file_id":"f"}]},
		{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"plan"}],"delegation_id":"d1"},
		{"type":"function_call","id":"fc_1","call_id":"call_1","name":"look","arguments":"{\"at\":1}","delegation_id":"d1"},
		{"type":"function_call","call_id":"call_2","name":"look","arguments":"[1]","delegation_id":"d1"},
		{"type":"function_call_output","call_id":"call_1","output":"one"},
		{"type":"function_call_output","call_id":"call_2","output":[{"type":"input_text","text":"two"},
			{"type":"input_image","image_url":"https://x/y.png"}]},
		{"type":"reasoning","id":"rs_2","summary":[]},
		{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[
			{"type":"output_text","text":"Seen.","annotations":[]},{"type":"refusal","refusal":"But no."}]}]`},
	{chat.OpenAIResponses, `[
		{"role":"user","content":"go"},
		{"type":"message","role":"assistant","content":"calling"},
		{"type":"function_call","call_id":"call_1","name":"look","arguments":""},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"called"}]},
		{"type":"a2a","role":"assistant","content":"over to you","from_agent":"a","to_agent":"b"},
		{"role":"assistant","content":""}]`},
}
