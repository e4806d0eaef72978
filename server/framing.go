package server

import (
	"bytes"
	"net/http"

	"github.com/valyala/fasthttp"
)

// checkFraming refuses a request if two servers in a row could disagree about its end or its host, because such a
// request can smuggle a second one past the first server. fasthttp is lenient here, so checkFraming reads the headers
// as they were received. The connection must be closed after the refusal, because the start of the next request is
// unknown.
func checkFraming(r *fasthttp.Request) error {
	h := &r.Header
	hosts, lengths, codings := 0, 0, 0
	for rest := h.RawHeaders(); len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte{'\n'})
		rest = after
		if !bytes.HasSuffix(line, []byte{'\r'}) {
			return badRequest("a line of the headers does not end with CR LF")
		}
		if line = line[:len(line)-1]; len(line) == 0 {
			break
		}
		if line[0] == ' ' || line[0] == '\t' {
			return badRequest("a header is folded over several lines")
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		if bytes.ContainsAny(name, " \t") {
			return badRequest("the name of a header contains a space")
		}
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Host")):
			hosts++
		case bytes.EqualFold(name, []byte("Content-Length")):
			lengths++
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			codings++
			if !bytes.EqualFold(value, []byte("chunked")) {
				return badRequest("the only supported transfer encoding is chunked")
			}
		}
	}
	protocol := string(h.Protocol())
	switch {
	case protocol != "HTTP/1.1" && protocol != "HTTP/1.0":
		return badRequest("the version of the protocol must be HTTP/1.1 or HTTP/1.0")
	case hosts > 1:
		return badRequest("the request has more than one Host header")
	case hosts == 0 && protocol == "HTTP/1.1":
		return badRequest("the request has no Host header")
	case codings > 0 && lengths > 0:
		return badRequest("the request has both a Content-Length and a Transfer-Encoding")
	case codings > 1 || lengths > 1:
		return badRequest("the request gives the length of its body twice")
	case codings > 0 && protocol == "HTTP/1.0":
		return badRequest("HTTP/1.0 has no Transfer-Encoding")
	}
	return nil
}

func badRequest(why string) *problem {
	return refuse(http.StatusBadRequest, "bad_request", "the request is not valid HTTP: %s", why)
}
