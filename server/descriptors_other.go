//go:build !unix

package server

// maxDescriptors returns 0, because this system has no limit per process.
func maxDescriptors() int { return 0 }
