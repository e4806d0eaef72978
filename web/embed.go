// Package web is the console: a single page that uses only the public API and shows what Mneme stores and why a model
// sees what it sees. Vite builds the page from src; the result is committed in dist and is part of the program.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var built embed.FS

// Dist is the built console: index.html, and in assets the files that it loads, each with a hash in its name.
func Dist() fs.FS {
	dist, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // the name is a constant
	}
	return dist
}
