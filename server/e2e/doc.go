// Package e2e holds the acceptance tests: the real program, over real HTTP, held against the documented contract by
// a law checker that shares no code with the engine.
package e2e
