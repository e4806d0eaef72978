package server

import (
	"context"
	"net"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// signInCookie is the cookie with the token of a browser that is signed in to the console.
const signInCookie = "mneme_session"

// SignInRequest signs a browser in, with one of the two.
type SignInRequest struct {
	Key  string `json:"key,omitempty"`
	Link string `json:"link,omitempty"` // from SignInLink
}

// credential authenticates a request: an API key or, in a browser, the token of a sign-in.
type credential struct {
	token  string
	signIn bool
}

// credential returns the credential of the request. A key takes precedence over a cookie. The cookie counts only if
// the console is served, and only in the console's own requests; others fail with origin_refused. If the cookie
// occurs twice, another page of the same host may have planted one, so neither counts and credential fails with
// sign_in_ended.
func (x *exchange) credential() (credential, error) {
	if key := token(x.c); key != "" {
		return credential{token: key}, nil
	}
	if x.s.console == nil {
		return credential{}, nil
	}
	found := x.signInCookies()
	if len(found) == 0 {
		return credential{}, nil
	}
	if err := x.fromConsole(); err != nil {
		return credential{}, err
	}
	if len(found) > 1 {
		return credential{}, fault.Errorf(fault.Unauthorized, "sign_in_ended",
			"the browser sent two cookies %s: remove them, and sign in again", signInCookie)
	}
	return credential{token: found[0], signIn: true}, nil
}

// signInCookies returns copies of the tokens in the request's cookies.
func (x *exchange) signInCookies() (tokens []string) {
	for name, value := range x.c.Request().Header.Cookies() {
		if string(name) == signInCookie {
			tokens = append(tokens, string(value))
		}
	}
	return tokens
}

// fromConsole refuses requests that are not from the console's own pages with origin_refused. Other pages cannot send
// the first header without a preflight request, which the server never allows. The browser sets the second header,
// which distinguishes pages on another port of the same host, to which the cookie is sent as well.
func (x *exchange) fromConsole() error {
	h := &x.c.Request().Header
	if string(h.Peek("X-Mneme-Console")) == "1" && string(h.Peek("Sec-Fetch-Site")) == "same-origin" {
		return nil
	}
	return refuse(http.StatusForbidden, "origin_refused", "the console's sign-in works only for the console, whose "+
		"requests have X-Mneme-Console: 1 and Sec-Fetch-Site: same-origin; send a key instead")
}

// authenticate returns the caller of a credential. use says that somebody is active, which extends a sign-in. It
// fails with unknown_key, sign_in_ended or console_root_refused.
func (s *Server) authenticate(ctx context.Context, cr credential, use bool) (ident.Caller, error) {
	if !cr.signIn {
		return s.engine.Tenants.Authenticate(ctx, cr.token)
	}
	caller, err := s.engine.Tenants.AuthenticateSignIn(ctx, cr.token, use)
	if err == nil {
		err = s.mayEnter(caller)
	}
	return caller, err
}

// mayEnter fails with console_root_refused for the root key if the operator has not allowed it in the console.
func (s *Server) mayEnter(c ident.Caller) error {
	if c.Role != ident.RoleRoot || s.console.root {
		return nil
	}
	return refuse(http.StatusForbidden, "console_root_refused",
		"the root key may sign in only if the server runs with --console-root; sign in with a tenant's key")
}

// signIn signs a browser in and sets the cookie. It ends the browser's previous sign-in, so that nobody who planted
// or kept the old cookie shares the new one.
func (s *Server) signIn(ctx context.Context, c *call[SignInRequest]) (tenant.SignedIn, error) {
	before := strings.Join(c.signInCookies(), " ") // two tokens together are unknown, like an invalid one
	var out tenant.SignedIn
	var err error
	switch {
	case (c.body.Key == "") == (c.body.Link == ""):
		return out, fault.InvalidField("key", "required", "send either a key or a link")
	case c.body.Link != "":
		out, err = s.engine.Tenants.SignInByLink(ctx, c.body.Link, before)
	default:
		if out.Caller, err = s.engine.Tenants.Authenticate(ctx, c.body.Key); err == nil {
			err = s.mayEnter(out.Caller)
		}
		if err == nil {
			out, err = s.engine.Tenants.SignIn(ctx, c.body.Key, before)
		}
	}
	if err != nil {
		return out, err
	}
	c.caller = out.Caller
	c.setCookie(out.Token)
	return out, nil
}

// signOut ends the browser's sign-in and removes the cookie. It also succeeds without a sign-in.
func (s *Server) signOut(ctx context.Context, c *call[nothing]) (nothing, error) {
	for _, token := range c.signInCookies() {
		if err := s.engine.Tenants.SignOut(ctx, token); err != nil {
			return nothing{}, err
		}
	}
	c.setCookie("")
	return nothing{}, nil
}

// makeSignInLink creates a sign-in link for the owner of a key. A sign-in cannot create one, or it could last for
// ever.
func (s *Server) makeSignInLink(ctx context.Context, c *call[nothing]) (tenant.SignInLink, error) {
	if err := s.mayEnter(c.caller); err != nil {
		return tenant.SignInLink{}, err
	}
	return s.engine.Tenants.MakeSignInLink(ctx, c.bears.token)
}

// setCookie sets the token of a sign-in in the browser; an empty token removes the cookie. The cookie has no expiry,
// because the sign-in has one; the browser drops it when it is closed.
func (x *exchange) setCookie(token string) {
	cookie := fiber.Cookie{Name: signInCookie, Value: token, Path: "/", HTTPOnly: true, SameSite: "Strict",
		Secure: x.secureOrigin(), SessionOnly: true}
	if token == "" {
		cookie.SessionOnly, cookie.MaxAge = false, -1
	}
	x.c.Cookie(&cookie)
}

// secureOrigin reports whether the cookie can be Secure: always except on the loopback without TLS, where some
// browsers do not accept secure cookies.
func (x *exchange) secureOrigin() bool {
	scheme, host, _ := strings.Cut(x.base(), "://")
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return scheme == "https" || host != "localhost" && !ip.IsLoopback()
}
