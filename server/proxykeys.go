package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// headerKey is the header in which clients of the proxy send Mneme's key, in addition to the provider's key in its
// usual header.
const headerKey = "X-Mneme-Key"

// headerProject is the header with the project of a request whose path names none.
const headerProject = "X-Mneme-Project"

// proxyToken returns Mneme's key of a request to the proxy: that of X-Mneme-Key, or else the first Mneme key in a
// header in which the provider's clients send theirs.
func (x *exchange) proxyToken() string {
	h := &x.c.Request().Header
	if key := string(h.Peek(headerKey)); key != "" {
		return strings.TrimSpace(key)
	}
	scheme, bearer, _ := strings.Cut(string(h.Peek(fiber.HeaderAuthorization)), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		bearer = ""
	}
	for _, key := range []string{bearer, string(h.Peek("X-Api-Key")), string(h.Peek("Api-Key")),
		string(h.Peek("X-Agent-Token"))} {
		if key = strings.TrimSpace(key); key != "" && x.s.engine.Tenants.IsKey(key) {
			return key
		}
	}
	return ""
}

// authoriseProxy determines the caller. It fails with key_missing, unknown_key, role_too_low or key_narrowed.
func (x *exchange) authoriseProxy(ctx context.Context) error {
	key := x.proxyToken()
	if key == "" {
		return refuse(http.StatusUnauthorized, "key_missing", "Mneme's key is missing: send it in X-Mneme-Key. Where "+
			"Mneme holds the provider's key, it may also be where your client sends an API key")
	}
	caller, err := x.s.engine.Tenants.Authenticate(ctx, key)
	if err != nil {
		return err
	}
	x.caller = caller
	if caller.Role < x.route.role || caller.Role == ident.RoleRoot {
		return refuse(http.StatusForbidden, "role_too_low",
			"this needs a tenant's key of the role %s; the key has %s", x.route.role, caller.Role)
	}
	return x.checkNarrowed()
}

// proxyProject returns the project of a request to the proxy: that of its path, of X-Mneme-Project, the only project
// that the key can use, or `default`.
func (x *exchange) proxyProject() string {
	if x.route.proxied.depth > 0 {
		return x.path("project")
	}
	if named := x.header(headerProject); named != "" {
		return named
	}
	if len(x.caller.Projects) == 1 {
		return x.caller.Projects[0]
	}
	return ident.DefaultProject
}
