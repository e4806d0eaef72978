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

// signInCookie holds the token of a browser that is signed in to the console.
const signInCookie = "mneme_session"

// SignInRequest signs a browser in, by one of the two.
type SignInRequest struct {
	Key  string `json:"key,omitempty"`
	Link string `json:"link,omitempty"` // from SignInLink
}

// credential is what a request bears: an API key or, in a browser, the token of a sign-in.
type credential struct {
	token  string
	signIn bool
}

// credential finds what the request bears. A key wins over a cookie. The cookie counts only where the console is served,
// and only in the console's own requests: it answers origin_refused to any other. Where a cookie comes twice, another
// page of the same host may have planted one, so that neither counts; it answers sign_in_ended.
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

// signInCookies are copies of the tokens in the request's cookies.
func (x *exchange) signInCookies() (tokens []string) {
	for name, value := range x.c.Request().Header.Cookies() {
		if string(name) == signInCookie {
			tokens = append(tokens, string(value))
		}
	}
	return tokens
}

// fromConsole refuses with origin_refused what does not come from the console's own pages. Other pages cannot send the
// first header without being asked by the browser, which the server never allows; the second is the browser's own, and
// it tells pages of another port of the same host apart, to which the browser would send the cookie too.
func (x *exchange) fromConsole() error {
	h := &x.c.Request().Header
	if string(h.Peek("X-Mneme-Console")) == "1" && string(h.Peek("Sec-Fetch-Site")) == "same-origin" {
		return nil
	}
	return refuse(http.StatusForbidden, "origin_refused", "the console's sign-in works in the console alone, whose "+
		"requests bear X-Mneme-Console: 1 and Sec-Fetch-Site: same-origin; send a key instead")
}

// authenticate tells who bears a credential. use says that somebody does something with it, which keeps a sign-in from
// ending. It answers unknown_key, sign_in_ended or console_root_refused.
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

// mayEnter refuses the root key where the operator has not let it in, with console_root_refused.
func (s *Server) mayEnter(c ident.Caller) error {
	if c.Role != ident.RoleRoot || s.console.root {
		return nil
	}
	return refuse(http.StatusForbidden, "console_root_refused",
		"the root key signs in where the server runs with --console-root; sign in with a tenant's key")
}

// signIn signs a browser in and gives it the cookie. What the browser had before ends, so that nobody who planted or
// kept it shares the new one.
func (s *Server) signIn(ctx context.Context, c *call[SignInRequest]) (tenant.SignedIn, error) {
	before := strings.Join(c.signInCookies(), " ") // two are unknown, as a token that nobody gave out is
	var out tenant.SignedIn
	var err error
	switch {
	case (c.body.Key == "") == (c.body.Link == ""):
		return out, fault.InvalidField("key", "required", "send either key or link")
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

// signOut ends the browser's sign-in and takes the cookie away. It succeeds without one.
func (s *Server) signOut(ctx context.Context, c *call[nothing]) (nothing, error) {
	for _, token := range c.signInCookies() {
		if err := s.engine.Tenants.SignOut(ctx, token); err != nil {
			return nothing{}, err
		}
	}
	c.setCookie("")
	return nothing{}, nil
}

// makeSignInLink makes a link for the bearer of a key. A sign-in makes none, or it could live for ever.
func (s *Server) makeSignInLink(ctx context.Context, c *call[nothing]) (tenant.SignInLink, error) {
	if err := s.mayEnter(c.caller); err != nil {
		return tenant.SignInLink{}, err
	}
	return s.engine.Tenants.MakeSignInLink(ctx, c.bears.token)
}

// setCookie gives the browser the token of its sign-in; an empty one takes the cookie away. The cookie has no end of its
// own, because the sign-in has: the browser forgets it when it is closed.
func (x *exchange) setCookie(token string) {
	cookie := fiber.Cookie{Name: signInCookie, Value: token, Path: "/", HTTPOnly: true, SameSite: "Strict",
		Secure: x.secureOrigin(), SessionOnly: true}
	if token == "" {
		cookie.SessionOnly, cookie.MaxAge = false, -1
	}
	x.c.Cookie(&cookie)
}

// secureOrigin tells whether the browser reached the server in a way that a secure cookie can take: everything but the
// loopback without TLS, which some browsers give no secure cookies.
func (x *exchange) secureOrigin() bool {
	scheme, host, _ := strings.Cut(x.base(), "://")
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return scheme == "https" || host != "localhost" && !ip.IsLoopback()
}
