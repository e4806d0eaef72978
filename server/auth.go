package server

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/seed-0906e6bc/mneme/engine"
)

const (
	defaultLimit = 50
	maxLimit     = 1000
	// maxOnceKey is the longest Idempotency-Key, in bytes.
	maxOnceKey = 255
)

// token is the key that a request bears: Authorization: Bearer KEY, else X-Agent-Token: KEY. It is a copy.
func token(c *fiber.Ctx) string {
	h := &c.Request().Header
	scheme, key, _ := strings.Cut(string(h.Peek(fiber.HeaderAuthorization)), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return string(h.Peek("X-Agent-Token"))
}

// authorise finds out who asks, in which tenant, and whether the role is enough for the route.
func (x *exchange) authorise(ctx context.Context) error {
	key := token(x.c)
	if key == "" {
		return refuse(http.StatusUnauthorized, "key_missing", "send a key as Authorization: Bearer KEY or X-Agent-Token: KEY")
	}
	caller, err := x.s.engine.Authenticate(ctx, key)
	if err != nil {
		return err
	}
	x.caller = caller
	if caller.Role < x.route.role {
		return refuse(http.StatusForbidden, "role_too_low", "this needs the role %s; the key has %s", x.route.role, caller.Role)
	}
	if x.route.stores {
		x.once.Seal = key
	}
	if x.route.role == engine.RoleRoot {
		return nil
	}
	return x.enterTenant(ctx)
}

// enterTenant lets root say with ?tenant= whose things it means. Any other key has its own tenant and knows no other.
func (x *exchange) enterTenant(ctx context.Context) error {
	tenant := x.query("tenant")
	if x.caller.Role != engine.RoleRoot {
		if tenant != "" && tenant != x.caller.Tenant {
			return noTenant(tenant)
		}
		return nil
	}
	if tenant == "" {
		return invalidQuery("tenant", "required", "the root key belongs to no tenant: say which one with ?tenant=")
	}
	exists, err := x.s.engine.TenantExists(ctx, tenant)
	if err != nil {
		return err
	}
	if !exists {
		return noTenant(tenant)
	}
	x.caller.Tenant = tenant
	return nil
}

func noTenant(id string) error {
	return &engine.Error{Kind: engine.NotFound, Code: "not_found", Detail: "no tenant " + strconv.Quote(id)}
}

func invalidQuery(name, code, detail string) error {
	return &engine.Error{Kind: engine.Invalid, Code: code, Detail: name + ": " + detail,
		Fields: []engine.FieldError{{Field: name, Code: code, Detail: detail}}}
}

func (x *exchange) readPage() error {
	x.page = engine.Page{Limit: defaultLimit, Cursor: x.query("cursor")}
	if s := x.query("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxLimit {
			return invalidQuery("limit", "out_of_range", "must be an integer from 1 to "+strconv.Itoa(maxLimit))
		}
		x.page.Limit = n
	}
	return nil
}

// readOnce prepares what the engine needs to run a storing request only once.
func (x *exchange) readOnce() error {
	key := string(x.c.Request().Header.Peek("Idempotency-Key"))
	if key == "" {
		x.once = engine.Once{}
		return nil
	}
	if len(key) > maxOnceKey {
		return invalidQuery("Idempotency-Key", "too_long", "must be at most "+strconv.Itoa(maxOnceKey)+" bytes")
	}
	x.once.Key = key
	h := sha256.New()
	for _, part := range [...]string{x.c.Method(), "\n", x.c.Path(), "\n"} {
		h.Write([]byte(part))
	}
	h.Write(x.c.Request().URI().QueryString())
	h.Write([]byte("\n"))
	h.Write(x.raw)
	h.Sum(x.once.Body[:0])
	return nil
}

// unescape decodes a part of a path. What is not validly escaped stays as it is, and is no id that anything has.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	if decoded, err := url.PathUnescape(s); err == nil {
		return decoded
	}
	return s
}
