package chattest

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// anthropic checks messages: roles alternate, starting with the user, every tool_use is answered at the start of the
// next message, no text block is empty, inputs are objects and ids are valid and unique.
func (r rules) anthropic(list []message) error {
	legal := regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	seen := map[string]bool{}
	open := calls{}
	for i, m := range list {
		want := "user"
		if i%2 == 1 {
			want = "assistant"
		}
		if m.str("role") != want {
			return fmt.Errorf("message %d: the role is %q, not %s", i, m.str("role"), want)
		}
		blocks, err := anthropicBlocks(m)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		fresh := calls{}
		results := true
		for _, b := range blocks {
			switch b.str("type") {
			case "tool_use":
				id := b.str("id")
				if seen[id] || !legal.MatchString(id) {
					err = fmt.Errorf("the id %q is illegal or appears twice", id)
				} else if want != "assistant" || b.str("name") == "" || b.object("input") == nil {
					err = errors.New("a tool_use is misplaced, has no name, or its input is no object")
				}
				seen[id] = true
				fresh[id] = true
			case "tool_result":
				if !results || want != "user" {
					err = errors.New("a tool_result does not come first in a user's message")
				} else if err = open.answer(b.str("tool_use_id")); err == nil {
					err = anthropicResult(b)
				}
			default:
				results = false
			}
			if err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
		}
		if err := open.end(r.openTail && i == len(list)-1); err != nil {
			return fmt.Errorf("message %d: of the message before, %w", i, err)
		}
		open = fresh
	}
	return open.end(r.openTail)
}

// anthropicBlocks returns a message's blocks. A plain text is one block.
func anthropicBlocks(m message) ([]message, error) {
	if s, ok := m["content"].(string); ok {
		if strings.TrimSpace(s) == "" {
			return nil, errors.New("the content is empty")
		}
		return nil, nil
	}
	blocks, err := m.parts("content")
	if err != nil {
		return nil, err
	}
	if len(blocks) == 0 {
		return nil, errors.New("the content has no blocks")
	}
	return blocks, noEmptyText(blocks)
}

func noEmptyText(blocks []message) error {
	for _, b := range blocks {
		if b.str("type") == "text" && strings.TrimSpace(b.str("text")) == "" {
			return errors.New("a text block is empty")
		}
	}
	return nil
}

func anthropicResult(b message) error {
	switch b["content"].(type) {
	case nil, string:
		return nil
	}
	blocks, err := b.parts("content")
	if err != nil {
		return err
	}
	return noEmptyText(blocks)
}
