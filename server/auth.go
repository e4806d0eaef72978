package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// token returns a copy of the key that a request carries, in Authorization: Bearer KEY or else in X-Agent-Token: KEY.
func token(c *fiber.Ctx) string {
	h := &c.Request().Header
	scheme, key, _ := strings.Cut(string(h.Peek(fiber.HeaderAuthorization)), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return string(h.Peek("X-Agent-Token"))
}

// authorise determines the caller and the tenant, and checks that the caller's role is sufficient for the route. It
// fails with key_missing, role_too_low, key_narrowed, or an error of credential, authenticate or enterTenant.
func (x *exchange) authorise(ctx context.Context) error {
	cr, err := x.credential()
	if err != nil {
		return err
	}
	if cr.token == "" || cr.signIn && x.route.keyAlone {
		return refuse(http.StatusUnauthorized, "key_missing",
			"send a key as Authorization: Bearer KEY or X-Agent-Token: KEY")
	}
	caller, err := x.s.authenticate(ctx, cr, true)
	if err != nil {
		return err
	}
	x.caller, x.bears = caller, cr
	if caller.Role < x.route.role {
		return refuse(http.StatusForbidden, "role_too_low",
			"this needs the role %s; the key has %s", x.route.role, caller.Role)
	}
	if err := x.checkNarrowed(); err != nil {
		return err
	}
	if x.route.stores {
		x.once.Seal = cr.token
	}
	if x.route.role == ident.RoleRoot || x.route.keyAlone ||
		x.route.anywhere && caller.Role == ident.RoleRoot && x.query("tenant") == "" {
		return nil
	}
	return x.enterTenant(ctx)
}

// enterTenant lets the root key choose a tenant with ?tenant=. Any other key works only in its own tenant. It fails
// with not_found if the tenant does not exist or is not the key's own.
func (x *exchange) enterTenant(ctx context.Context) error {
	tenant := x.query("tenant")
	if x.caller.Role != ident.RoleRoot {
		if tenant != "" && tenant != x.caller.Tenant {
			return noTenant(tenant)
		}
		return nil
	}
	if tenant == "" {
		return invalidQuery("tenant", "required", "the root key belongs to no tenant: name one with ?tenant=")
	}
	exists, err := x.s.engine.Tenants.Exists(ctx, tenant)
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
	return fault.Errorf(fault.NotFound, "not_found", "no tenant %q", id)
}
