package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestConfigurationPage compares the table of docs/CONFIGURATION.md with the existing settings.
func TestConfigurationPage(t *testing.T) { holdPrinted(t, "docs/CONFIGURATION.md", settingsTable()) }

func settingsTable() string {
	var b strings.Builder
	b.WriteString("| flag | environment | key in the file | meaning | default |\n|---|---|---|---|---|\n")
	for _, o := range newRawConfig().options() {
		says, fallback, _ := strings.Cut(strings.TrimSuffix(o.usage, ")"), " (default: ")
		if *o.value != "" {
			fallback = code(*o.value)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", code(dashed(o.flag)), code(o.env), code(o.key), says, fallback)
	}
	return b.String()
}

func dashed(flag string) string {
	if flag == "" {
		return ""
	}
	return "--" + flag
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
