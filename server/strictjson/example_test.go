package strictjson_test

import (
	"fmt"

	"github.com/seed-0906e6bc/mneme/server/strictjson"
)

// All faults of a body are reported at once, each with its path.
func ExampleDecoder_Decode() {
	type request struct {
		Budget struct {
			MaxTokens int `json:"max_tokens"`
		} `json:"budget"`
		Tags []string `json:"tags"`
	}
	var r request
	err := strictjson.For[request]().Decode([]byte(`{"budget":{"Max_Tokens":1},"tags":["a",2]}`), &r)
	fmt.Println(err)
	// Output: budget.Max_Tokens: unknown field; did you mean `max_tokens`?; tags[1]: must be a string
}
