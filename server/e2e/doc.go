// Package e2e has the acceptance tests: the real program, over real HTTP, checked against the documented API. The
// checker of windows shares no code with the engine.
package e2e
