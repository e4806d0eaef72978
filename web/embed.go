// Package web is the console: a single page that shows, over the public API alone, what Mneme keeps and why a model
// sees what it sees. The page is built by Vite from src; what it built is committed in dist and part of the program.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var built embed.FS

// Dist is the built console: index.html, and below assets what it loads, each file with a hash in its name.
func Dist() fs.FS {
	dist, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // the name is a constant
	}
	return dist
}
