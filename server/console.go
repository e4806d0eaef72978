package server

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
)

// The console is a single page under consolePath; every path below it is a state of the page. File names under its
// assets directory contain a hash, so those files never change.
const (
	consolePath = "/console/"
	consolePage = "index.html"
	assets      = "assets/"
)

// consoleHeaders are sent with every file of the console, in addition to the headers of every response. They allow no
// resources from other origins and no inline scripts or styles, and they prevent text from becoming markup.
var consoleHeaders = [...][2]string{
	{fiber.HeaderContentSecurityPolicy, "default-src 'none'; script-src 'self'; style-src 'self'; " +
		"img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; " +
		"frame-ancestors 'none'; require-trusted-types-for 'script'"},
	{fiber.HeaderReferrerPolicy, "no-referrer"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
}

// consoleTypes maps file extensions to media types. The system's table is not used, because it differs between
// machines.
var consoleTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2",
	".json": jsonType, ".txt": "text/plain; charset=utf-8",
}

// console holds the built page, ready to serve.
type console struct {
	root  bool // the operator's key may sign in
	files map[string]func() (consoleFile, error)
	route *route
}

// consoleFile is a file as it is sent. packed is nil if compression does not make it smaller.
type consoleFile struct{ body, packed []byte }

// newConsole lists the files of the built console. Each file is read on the first request for it.
func newConsole(dist fs.FS, root bool, m *metrics) (*console, error) {
	c := &console{root: root, files: map[string]func() (consoleFile, error){},
		route: &route{line: line{path: consolePath, options: options{quiet: true}}, metrics: m.route(http.MethodGet, consolePath)}}
	err := fs.WalkDir(dist, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			c.files[name] = sync.OnceValues(func() (consoleFile, error) { return readConsoleFile(dist, name) })
		}
		return err
	})
	return c, err
}

func readConsoleFile(dist fs.FS, name string) (f consoleFile, err error) {
	if f.body, err = fs.ReadFile(dist, name); err != nil {
		return f, err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return f, err
	}
	if _, err = w.Write(f.body); err == nil {
		err = w.Close()
	}
	if packed.Len() < len(f.body) {
		f.packed = packed.Bytes()
	}
	return f, err
}

// isConsole reports whether a request without a route is for the console. Console paths are not part of the API: they
// are not in the table of routes and not in the description, and every API route takes precedence.
func (s *Server) isConsole(c *fiber.Ctx, err error) bool {
	found, ok := errors.AsType[*fiber.Error](err)
	if s.console == nil || !ok || found.Code != http.StatusNotFound {
		return false
	}
	path := c.Path()
	return (c.Method() == http.MethodGet || c.Method() == http.MethodHead) &&
		(path == "/" || path+"/" == consolePath || strings.HasPrefix(path, consolePath))
}

// serveConsole serves requests for the console.
func (x *exchange) serveConsole() error {
	if strings.HasPrefix(x.c.Path(), consolePath) {
		return x.consoleFile()
	}
	return x.leadToConsole()
}

// leadToConsole redirects browsers to the console. Other clients that request the root get a 404.
func (x *exchange) leadToConsole() error {
	if x.c.Path() == "/" && !strings.Contains(string(x.c.Request().Header.Peek(fiber.HeaderAccept)), "text/html") {
		return x.unroutable(fiber.ErrNotFound)
	}
	x.c.Response().SetStatusCode(http.StatusFound)
	x.c.Response().Header.Set(fiber.HeaderLocation, consolePath)
	return nil
}

// consoleFile serves a file of the console, and the page itself for every other path, which is one of its states. A
// missing asset is a 404, because it belongs to another version of the page.
func (x *exchange) consoleFile() error {
	name := path.Clean(cmp.Or(strings.TrimPrefix(strings.Clone(x.c.Path()), consolePath), consolePage))
	open, ok := x.s.console.files[name]
	if !ok {
		if strings.HasPrefix(name, assets) {
			return x.unroutable(fiber.ErrNotFound)
		}
		name = consolePage
		open = x.s.console.files[name]
	}
	f, err := open()
	if err != nil {
		return err
	}
	r := x.c.Response()
	for _, h := range consoleHeaders {
		r.Header.Set(h[0], h[1])
	}
	r.Header.SetContentType(cmp.Or(consoleTypes[path.Ext(name)], "application/octet-stream"))
	switch {
	case name == consolePage:
		r.Header.Set(fiber.HeaderCacheControl, "no-store")
	case strings.HasPrefix(name, assets):
		r.Header.Set(fiber.HeaderCacheControl, "public, max-age=31536000, immutable")
	default:
		r.Header.Set(fiber.HeaderCacheControl, "no-cache")
	}
	r.Header.Set(fiber.HeaderVary, fiber.HeaderAcceptEncoding)
	if body := f.packed; body != nil && x.c.Request().Header.HasAcceptEncoding("gzip") {
		r.Header.Set(fiber.HeaderContentEncoding, "gzip")
		r.SetBodyRaw(body)
		return nil
	}
	r.SetBodyRaw(f.body)
	return nil
}
