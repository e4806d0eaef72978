package server

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"net/http"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
)

//go:generate go test -run TestErrorCodesAreDocumented -update .

// edgeCode is an error code of package server. Package fault lists the engine's codes.
type edgeCode struct {
	code            string
	status          int
	meaning, remedy string
}

// edgeCodes lists the codes of requests that the server refuses without calling the engine.
var edgeCodes = []edgeCode{
	{"backup_running", http.StatusConflict, "A backup is already running.", "Wait until it ends."},
	{"backup_unsupported", http.StatusNotImplemented, "The store is a database with its own backups.",
		"Use the database's backups."},
	{"bad_request", http.StatusBadRequest, "The request is not valid HTTP.", "Correct the client."},
	{"body_missing", http.StatusBadRequest, "The route needs a body.", "Send one of the type that the detail names."},
	{"body_unexpected", http.StatusBadRequest, "The route takes no body.", "Send none."},
	{"busy", http.StatusServiceUnavailable,
		"Too many requests are waiting, too many streams or calls to providers are open, too many imports are running, or " +
			"bodies and long responses take too much memory. Nothing was changed.",
		"Wait for the time in Retry-After and send it again."},
	{"console_root_refused", http.StatusForbidden, "The root key may not sign in to the console.",
		"Sign in with a tenant's key, or start the server with --console-root."},
	{"client_gone", statusGone,
		"The client closed its connection before the response was sent; this code appears only in the log.",
		"Nothing."},
	{"context_length_exceeded", http.StatusBadRequest,
		"The mandatory messages of a model call exceed the model's context.",
		"Send less, or let the client compact."},
	{"deadline_exceeded", http.StatusServiceUnavailable, "The request took too long.", "Send it again."},
	{"decisions_needed", http.StatusUnprocessableEntity,
		"The project keeps no decisions, which model calls with adaptive thinking in mode assemble need.",
		"Set decisions to all or errors, or proxy_mode to observe or recall."},
	{"duplicate_parameter", http.StatusUnprocessableEntity, "The query has a parameter twice that takes one value.",
		"Send it once."},
	{"headers_too_large", http.StatusRequestHeaderFieldsTooLarge, "The request line and headers are too long together.",
		"Send less of them."},
	{"incomplete_body", http.StatusBadRequest,
		"The body ended early, or does not match the headers that give its length or encoding.",
		"Send it again."},
	{"internal", http.StatusInternalServerError, "The server failed.",
		"Give the operator the request_id: the log says more."},
	{"invalid_json", http.StatusBadRequest, "The body is not JSON; the detail says where.", "Correct the JSON."},
	{"key_in_url", http.StatusBadRequest, "A URL of the proxy contains one of Mneme's keys.",
		"Send keys in headers, and replace this one."},
	{"key_missing", http.StatusUnauthorized, "The request has no key.",
		"Send one as Authorization: Bearer KEY or X-Agent-Token: KEY."},
	{"mcp_refused", http.StatusBadRequest,
		"The request does not follow the Model Context Protocol, which defines the status.",
		"Correct the client."},
	{"method_not_allowed", http.StatusMethodNotAllowed, "The route does not take that method.",
		"Use one that Allow lists."},
	{"method_unknown", http.StatusNotImplemented, "No route takes that method.",
		"Use a method of the API description."},
	{"model_not_found", http.StatusNotFound, "The project has no upstream for the model.",
		"Name another model, or add an upstream to the settings."},
	{"not_ready", http.StatusServiceUnavailable, "The server cannot serve requests and store data at present.",
		"Try again later."},
	{"older_than_days_missing", http.StatusBadRequest, "A purge of a board must say how old the entries are.",
		"Send older_than_days; 0 deletes all."},
	{"origin_refused", http.StatusForbidden,
		"The request comes from a page of another origin, or has the console's cookie and does not come from the " +
			"console.",
		"Send it from a program, with a key."},
	{"parameter_missing", http.StatusBadRequest, "The query lacks the parameter that errors names.", "Send it."},
	{"provider_key_missing", http.StatusUnauthorized, "A model call has no key for the provider.",
		"Send it beside Mneme's key, which goes in X-Mneme-Key, or store one encrypted in the project's settings."},
	{"rate_limited", http.StatusTooManyRequests, "The tenant has sent too many requests.",
		"Wait for the time in Retry-After."},
	{"request_timeout", http.StatusRequestTimeout, "The request did not arrive in time.", "Send it again, faster."},
	{"role_too_low", http.StatusForbidden, "The key's role is too low.",
		"Use a key with the role that the detail names."},
	{"server_unreachable", http.StatusServiceUnavailable, "`mneme mcp` cannot reach its server.",
		"Check the server's address, and that it is running."},
	{"session_required", http.StatusBadRequest, "The project stores all model calls, and this one names no session.",
		"Send X-Mneme-Session."},
	{"shutting_down", http.StatusServiceUnavailable, "The server is stopping.", "Send the request again."},
	{"tool_rounds_exceeded", http.StatusBadGateway,
		"A model called memory tools in more rounds than one call may have, and went on when told to call none.",
		"Send the request again, or leave the tools out of `proxy_tools`."},
	{"unknown_parameter", http.StatusUnprocessableEntity, "The query has a parameter that the route does not take.",
		"Send one that the detail names."},
	{"unsupported_encoding", http.StatusUnsupportedMediaType, "The body is compressed, or a model call is in a way other than gzip, br or zstd.",
		"Send it without a content encoding."},
	{"unsupported_media_type", http.StatusUnsupportedMediaType, "The route does not take bodies of that type.",
		"Send the type that the detail names."},
	{"upstream_answer_too_large", http.StatusBadGateway, "A provider's response is larger than 64 MiB.",
		"Ask for less, or for a stream."},
	{"upstream_disconnected", http.StatusBadGateway,
		"The connection to the provider broke before its response was complete.",
		"Send the request again."},
	{"upstream_error", http.StatusBadGateway,
		"A provider reported an error in the middle of its response; the message is the provider's.",
		"Send the request again."},
	{"upstream_key_unusable", http.StatusServiceUnavailable, "An upstream's encrypted key cannot be decrypted.",
		"Set its secret again in the settings."},
	{"upstream_not_allowed", http.StatusForbidden, "The operator does not allow the upstream's host.",
		"Choose a host that the operator allows."},
	{"upstream_timeout", http.StatusGatewayTimeout, "The provider did not answer in time.",
		"Send the request again."},
	{"upstream_unreachable", http.StatusBadGateway, "The provider could not be reached.",
		"Send the request again."},
	{"window_failed", http.StatusServiceUnavailable,
		"The window of a model call could not be made, and the project does not forward calls without one.",
		"Send the request again, or set proxy_on_error to open."},
}

// allCodes returns the codes of the server and the engine, sorted by name.
func allCodes() []edgeCode {
	all := slices.Clone(edgeCodes)
	for _, c := range fault.ErrorCodes {
		all = append(all, edgeCode{c.Code, statusOf(c.Kind), c.Meaning, c.Remedy})
	}
	slices.SortFunc(all, func(a, b edgeCode) int { return cmp.Compare(a.code, b.code) })
	return all
}

// errorPage returns the page of all error codes: docs/ERRORS.md as HTML, with each code as the id of its row.
func errorPage() []byte {
	var b bytes.Buffer
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Error codes</title>\n" +
		"<h1>Error codes</h1>\n<table>\n<tr><th>code<th>status<th>meaning<th>what to do\n")
	for _, c := range allCodes() {
		fmt.Fprintf(&b, "<tr id=\"%s\"><td><code>%s</code><td>%d<td>%s<td>%s\n", c.code, c.code, c.status,
			html.EscapeString(c.meaning), html.EscapeString(c.remedy))
	}
	b.WriteString("</table>\n</html>\n")
	return b.Bytes()
}
