package server

import (
	"cmp"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/gateway/relay"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

// proxied describes a route of the proxy. Its responses and errors follow the provider's protocol.
type proxied struct {
	format chat.Format
	turns  bool // it serves model calls, whose replies can be turns of a session
	either bool // both protocols have it: the header anthropic-version tells which is meant
	bare   bool // a call may have no body
	depth  int  // the number of path segments before /v1
}

// proxyMaxBody is the maximum size of a model call's body. The longest are files for transcription; Anthropic allows
// 32 MB.
const proxyMaxBody = 32 << 20

// proxyLines lists the routes of the proxy under three paths: one for clients that can set headers, and two for
// clients that can only set a base URL, with the project, or with the project and the session.
func (s *Server) proxyLines() []line {
	return append(append(s.proxyLinesUnder("", ""), s.proxyLinesUnder("inProject", "/p/{project}")...),
		s.proxyLinesUnder("inSession", "/p/{project}/s/{session}")...)
}

func (s *Server) proxyLinesUnder(prefix, under string) []line {
	var lines []line
	add := func(id, method, path string, p proxied) {
		if prefix != "" {
			id = prefix + strings.ToUpper(id[:1]) + id[1:]
		}
		p.depth = strings.Count(under, "/")
		e := endpoint{takesBody: method == http.MethodPost, request: reflect.TypeFor[rawBody](),
			response: reflect.TypeFor[relayed](), serve: s.proxy}
		lines = append(lines, line{id, method, under + "/v1" + path, agent, http.StatusOK, e,
			options{proxied: &p, maxBody: proxyMaxBody, bodyOptional: p.bare, media: anyMedia(e.takesBody)}})
	}
	add("createChatCompletion", "POST", "/chat/completions", proxied{format: chat.OpenAIChat, turns: true})
	add("createResponse", "POST", "/responses", proxied{format: chat.OpenAIResponses, turns: true})
	add("createMessage", "POST", "/messages", proxied{format: chat.AnthropicMessages, turns: true})
	add("countMessageTokens", "POST", "/messages/count_tokens", anthropic)
	add("listModels", "GET", "/models", either)
	add("getModel", "GET", "/models/{model}", either)
	add("createEmbedding", "POST", "/embeddings", openAI)
	add("createModeration", "POST", "/moderations", openAI)
	add("compactResponse", "POST", "/responses/compact", openAI)
	add("getResponse", "GET", "/responses/{response}", openAI)
	add("deleteResponse", "DELETE", "/responses/{response}", openAI)
	add("audio", "POST", "/audio/{operation}", openAI)
	add("images", "POST", "/images/{operation}", openAI)
	for _, other := range passedOn {
		p := other.proxied
		p.bare = strings.HasSuffix(other.path, "/cancel")
		add(other.id, other.method, other.path, p)
	}
	return lines
}

// The kinds of the routes whose calls are passed on as they are.
var (
	openAI    = proxied{format: chat.OpenAIChat}
	anthropic = proxied{format: chat.AnthropicMessages}
	either    = proxied{either: true}
)

// passedOn are routes that clients with a moved base URL call beside those of models. Nothing of them is stored.
var passedOn = []struct {
	id, method, path string
	proxied
}{
	{"countResponseTokens", "POST", "/responses/input_tokens", openAI},
	{"cancelResponse", "POST", "/responses/{response}/cancel", openAI},
	{"listResponseInput", "GET", "/responses/{response}/input_items", openAI},
	{"createConversation", "POST", "/conversations", openAI},
	{"getConversation", "GET", "/conversations/{conversation}", openAI},
	{"updateConversation", "POST", "/conversations/{conversation}", openAI},
	{"deleteConversation", "DELETE", "/conversations/{conversation}", openAI},
	{"listConversationItems", "GET", "/conversations/{conversation}/items", openAI},
	{"createConversationItems", "POST", "/conversations/{conversation}/items", openAI},
	{"getConversationItem", "GET", "/conversations/{conversation}/items/{item}", openAI},
	{"deleteConversationItem", "DELETE", "/conversations/{conversation}/items/{item}", openAI},
	{"createFile", "POST", "/files", either},
	{"listFiles", "GET", "/files", either},
	{"getFile", "GET", "/files/{file}", either},
	{"deleteFile", "DELETE", "/files/{file}", either},
	{"getFileContent", "GET", "/files/{file}/content", either},
	{"createBatch", "POST", "/batches", openAI},
	{"listBatches", "GET", "/batches", openAI},
	{"getBatch", "GET", "/batches/{batch}", openAI},
	{"cancelBatch", "POST", "/batches/{batch}/cancel", openAI},
	{"createMessageBatch", "POST", "/messages/batches", anthropic},
	{"listMessageBatches", "GET", "/messages/batches", anthropic},
	{"getMessageBatch", "GET", "/messages/batches/{batch}", anthropic},
	{"deleteMessageBatch", "DELETE", "/messages/batches/{batch}", anthropic},
	{"cancelMessageBatch", "POST", "/messages/batches/{batch}/cancel", anthropic},
	{"getMessageBatchResults", "GET", "/messages/batches/{batch}/results", anthropic},
	{"getVendorModel", "GET", "/models/{vendor}/{model}", either},
}

// anyMedia returns the media type of a proxied body: any type that the provider takes.
func anyMedia(takesBody bool) string {
	if takesBody {
		return "*/*"
	}
	return ""
}

// relayed is a provider's response, which no Go type describes.
type relayed struct{}

// protocol returns the provider protocol of the request.
func (x *exchange) protocol() provider.Protocol {
	if x.proxyFormat() == chat.AnthropicMessages {
		return provider.Anthropic
	}
	return provider.OpenAI
}

// proxyFormat returns the format of the request's errors.
func (x *exchange) proxyFormat() chat.Format {
	p := x.route.proxied
	if p.either && len(x.c.Request().Header.Peek("Anthropic-Version")) > 0 {
		return chat.AnthropicMessages
	}
	return p.format
}

// proxyPath returns the path below the upstream's base URL, as the client wrote it.
func (x *exchange) proxyPath() string {
	parts := strings.SplitN(string(x.c.Request().URI().PathOriginal()), "/", x.route.proxied.depth+3)
	return "/" + parts[len(parts)-1]
}

// refusalOf converts a problem to an error of the provider's protocol.
func refusalOf(p *problem) *relay.Refusal {
	retry := p.Status == http.StatusTooManyRequests || p.Status == http.StatusRequestTimeout ||
		p.Status == http.StatusServiceUnavailable
	return &relay.Refusal{Status: p.Status, Code: p.Code, Message: p.Detail, Retry: retry}
}

// renderRefusal writes an error in the format of the provider's protocol.
func (x *exchange) renderRefusal(err error) {
	refusal, ok := errors.AsType[*relay.Refusal](err)
	if !ok {
		refusal = refusalOf(problemOf(err))
	}
	r := x.c.Response()
	r.ResetBody()
	r.SetStatusCode(refusal.Status)
	r.Header.SetContentType(jsonType)
	r.Header.Set("X-Should-Retry", refusal.ShouldRetry())
	if refusal.Status == http.StatusServiceUnavailable {
		r.Header.Set("Retry-After", cmp.Or(string(r.Header.Peek("Retry-After")), "1"))
	}
	if x.proxyFormat() == chat.AnthropicMessages {
		r.Header.Set("Request-Id", x.id)
	}
	r.SetBodyRaw(refusal.Body(x.proxyFormat(), x.id))
}
