package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
)

// forNamespaces lists the operations for keys that are narrowed to namespaces, without the prefix of the path they are
// served under. All others refuse these keys with key_narrowed, so a new route is refused until it is listed here. The
// engine has the same default: it lets such a key into a project only as the caller of one namespace, or of a session in
// one.
var forNamespaces = []string{
	"whoAmI",
	"storeMemory", "listMemories", "recall", "getMemory", "putMemory", "patchMemory", "forgetMemory", "forgetMatching",
	"listNamespaces", "memoryHistory", "whyMemory",
	"listTools", "callTool", "mcp",
	"appendTurn", "assemble", "listSessions", "createSession", "importSession", "getSession", "streamSession",
	"deleteSession", "listMessages", "getMessage", "getTurn", "actOnSummary", "rewindSession", "forkSession", "exportSession",
	"listDecisions", "getDecision", "replayDecision", "getDecisionCase", "explainAbsence",
	// Of the proxy, those for which the provider keeps nothing that another key could name.
	"createChatCompletion", "createResponse", "createMessage", "countMessageTokens", "listModels", "getModel",
	"createEmbedding", "createModeration",
}

// checkNarrowed refuses a key that is narrowed to namespaces with key_narrowed if the route reaches more.
func (x *exchange) checkNarrowed() error {
	id := x.route.id
	for _, prefix := range []string{"inProject", "inSession"} {
		if rest, ok := strings.CutPrefix(id, prefix); ok && x.route.proxied != nil {
			id = strings.ToLower(rest[:1]) + rest[1:]
		}
	}
	if x.caller.Namespaces == nil || slices.Contains(forNamespaces, id) {
		return nil
	}
	return x.caller.Confined()
}

// checkContinued refuses a model call of a key that is narrowed to namespaces if it continues what the provider keeps, and
// Mneme does not know in which namespace that is. It fails with key_narrowed.
func (call *modelCall) checkContinued(x *exchange, body wire.Object) error {
	if x.caller.Namespaces == nil || !call.route.turns {
		return nil
	}
	names := func(member string) bool {
		v := body.Get(member)
		return v != nil && string(v) != "null"
	}
	if names("conversation") || names("previous_response_id") && call.turn.exchange == nil {
		return refuse(http.StatusForbidden, "key_narrowed", "the call continues what the provider keeps, and your key is "+
			"narrowed to namespaces: send the messages, or continue a response that is stored in a session of yours")
	}
	return nil
}
