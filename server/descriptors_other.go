//go:build !unix

package server

// maxDescriptors reports that there is no limit, because this system has no limit per process.
func maxDescriptors() (int, bool) { return 0, false }
