// Package tokens says what the things that a window is made of cost, in tokens: tools, pictures, documents, sound, and
// messages that hold them. Everything here is a pure function of its arguments; docs/TOKENS.md has each formula with its
// source.
package tokens
