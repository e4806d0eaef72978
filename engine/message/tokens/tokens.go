// Package tokens computes the token cost of what a window consists of: tools, pictures, documents, sound, and messages
// that contain them. All functions are pure. docs/TOKENS.md lists each formula with its source.
package tokens
