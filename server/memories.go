package server

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

func (s *Server) storeMemory(ctx context.Context, c *call[memory.Spec]) (stored[memory.Memory], error) {
	m, created, err := s.engine.Memories.Store(ctx, c.caller, c.once, c.path("project"), c.body)
	return stored[memory.Memory]{m, created}, err
}

// listMemories answers invalid_value where metadata or value is no JSON object.
func (s *Server) listMemories(ctx context.Context, c *call[nothing]) (list records.List[memory.Memory], err error) {
	f := memory.Filter{Category: c.query("category"), Categories: c.queries("categories"),
		Tags: c.queries("tags"), TagsAny: c.queries("tags_any"), TagsNot: c.queries("tags_not"),
		Source: c.query("source"), SessionID: c.query("session_id"), Namespace: c.queries("namespace"),
		Since: c.query("since"), Until: c.query("until")}
	if f.Metadata, err = c.conditions("metadata"); err != nil {
		return list, err
	}
	if f.Value, err = c.conditions("value"); err != nil {
		return list, err
	}
	return s.engine.Memories.List(ctx, c.caller, c.path("project"), f, c.page)
}

// conditions reads a parameter that is a JSON object.
func (x *exchange) conditions(name string) (out memory.Conditions, err error) {
	if text := x.query(name); text != "" && json.Unmarshal([]byte(text), &out) != nil {
		err = invalidQuery(name, "invalid_value", `must be a JSON object, such as {"lang":"de"}`)
	}
	return out, err
}

// memoryID is the full name of the memory that the path and the query name. It answers the codes of a namespace.
func (x *exchange) memoryID() (string, error) {
	namespace := x.queries("namespace")
	return memory.ID(namespace, x.path("memory")), ident.CheckNamespace("namespace", namespace)
}

func (s *Server) getMemory(ctx context.Context, c *call[nothing]) (memory.Memory, error) {
	id, err := c.memoryID()
	if err != nil {
		return memory.Memory{}, err
	}
	return s.engine.Memories.Get(ctx, c.caller, c.path("project"), id)
}

func (s *Server) forgetMemory(ctx context.Context, c *call[nothing]) (memory.Forgotten, error) {
	id, err := c.memoryID()
	if err != nil {
		return memory.Forgotten{}, err
	}
	return s.engine.Memories.Forget(ctx, c.caller, ident.Once{}, c.path("project"), id)
}

func (s *Server) forgetMatching(ctx context.Context, c *call[memory.ForgetMatching]) (memory.ForgottenMatching, error) {
	return s.engine.Memories.ForgetMatching(ctx, c.caller, c.path("project"), c.body)
}

func (s *Server) listNamespaces(ctx context.Context, c *call[nothing]) (records.List[memory.Namespace], error) {
	return s.engine.Memories.Namespaces(ctx, c.caller, c.path("project"), c.queries("namespace"), c.page)
}

func (s *Server) memoryHistory(ctx context.Context, c *call[nothing]) (records.List[memory.Version], error) {
	id, err := c.memoryID()
	if err != nil {
		return records.List[memory.Version]{}, err
	}
	return s.engine.Memories.History(ctx, c.caller, c.path("project"), id, c.page)
}

func (s *Server) recall(ctx context.Context, c *call[recall.Query]) (recall.Result, error) {
	return s.engine.Recall.Recall(ctx, c.caller, c.path("project"), c.body)
}
