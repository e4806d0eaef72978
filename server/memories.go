package server

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/server/strictjson"
)

func (s *Server) storeMemory(ctx context.Context, c *call[memory.Spec]) (stored[memory.Memory], error) {
	return c.storeMemory(ctx, c.body)
}

// putMemory stores the memory that the path and the query name. The body may repeat the name.
func (s *Server) putMemory(ctx context.Context, c *call[memory.Spec]) (stored[memory.Memory], error) {
	key, namespace := c.path("memory"), c.queries("namespace")
	switch {
	case c.body.Key != "" && c.body.Key != key:
		return stored[memory.Memory]{}, fault.InvalidField("key", "invalid_value", "must equal the one in the path, or be left out")
	case c.body.Namespace != nil && !slices.Equal(c.body.Namespace, namespace):
		return stored[memory.Memory]{}, fault.InvalidField("namespace", "invalid_value", "must equal the one in the query, or be left out")
	}
	c.body.Key, c.body.Namespace = key, namespace
	return c.storeMemory(ctx, c.body)
}

func (x *exchange) storeMemory(ctx context.Context, spec memory.Spec) (stored[memory.Memory], error) {
	m, created, err := x.s.engine.Memories.StoreIf(ctx, x.caller, x.once, x.path("project"), spec, x.precondition())
	if err != nil {
		return stored[memory.Memory]{}, err
	}
	x.tag(m.ETag)
	return stored[memory.Memory]{m, created}, nil
}

// patchMemory passes the patch on undecoded, because null clears a field.
func (s *Server) patchMemory(ctx context.Context, c *call[json.RawMessage]) (memory.Memory, error) {
	id, err := c.memoryID()
	if err != nil {
		return memory.Memory{}, err
	}
	body, err := changesDecoder.Check(c.body)
	if err != nil {
		return memory.Memory{}, err
	}
	var patch memory.Patch
	if err := json.Unmarshal(body, &patch); err != nil {
		return memory.Memory{}, err
	}
	m, err := s.engine.Memories.Patch(ctx, c.caller, c.once, c.path("project"), id, patch, c.precondition())
	if err == nil {
		c.tag(m.ETag)
	}
	return m, err
}

var changesDecoder = strictjson.For[memory.Changes]()

// precondition returns the condition on a memory in the headers If-Match and If-None-Match, as defined in RFC 9110.
func (x *exchange) precondition() memory.Precondition {
	return memory.Precondition{Match: x.tags(fiber.HeaderIfMatch), NoneMatch: x.tags(fiber.HeaderIfNoneMatch)}
}

// tags returns the elements of a header that lists ETags.
func (x *exchange) tags(header string) (out []string) {
	for _, line := range x.c.Request().Header.PeekAll(header) {
		for one := range strings.SplitSeq(string(line), ",") {
			if one = strings.TrimSpace(one); one != "" {
				out = append(out, one)
			}
		}
	}
	return out
}

// tag sets the ETag of the response.
func (x *exchange) tag(etag string) {
	if etag != "" {
		x.c.Response().Header.Set(fiber.HeaderETag, etag)
	}
}

// listMemories lists memories. It fails with invalid_value if metadata or value is not a JSON object.
func (s *Server) listMemories(ctx context.Context, c *call[nothing]) (list records.List[memory.Memory], err error) {
	f := memory.Filter{Category: c.query("category"), Categories: c.queries("categories"),
		Tags: c.queries("tags"), TagsAny: c.queries("tags_any"), TagsNot: c.queries("tags_not"),
		Source: c.query("source"), SessionID: c.query("session_id"), Namespace: c.queries("namespace"),
		Since: c.query("since"), Until: c.query("until"), MinTrust: memory.Trust(c.query("min_trust"))}
	if f.Metadata, err = c.conditions("metadata"); err != nil {
		return list, err
	}
	if f.Value, err = c.conditions("value"); err != nil {
		return list, err
	}
	order, err := memory.ParseOrder(c.query("order"))
	if err != nil {
		return list, err
	}
	return s.engine.Memories.List(ctx, c.caller, c.path("project"), f, order, c.page)
}

// conditions parses a parameter that is a JSON object.
func (x *exchange) conditions(name string) (out memory.Conditions, err error) {
	if text := x.query(name); text != "" && json.Unmarshal([]byte(text), &out) != nil {
		err = invalidQuery(name, "invalid_value", `must be a JSON object, such as {"lang":"de"}`)
	}
	return out, err
}

// memoryID returns the full name of the memory that the path and the query name. Without a namespace in the query, it is
// that of a key that is narrowed to one. It fails with the error codes of a namespace.
func (x *exchange) memoryID() (string, error) {
	_, namespace, err := x.caller.In(x.queries("namespace"))
	if err != nil {
		return "", err
	}
	return memory.ID(namespace, x.path("memory")), ident.CheckStoredNamespace("namespace", namespace)
}

// getMemory returns a memory. The status is 304 if If-None-Match has the memory's ETag, by the weak comparison of RFC
// 9110.
func (s *Server) getMemory(ctx context.Context, c *call[nothing]) (unlessKnown[memory.Memory], error) {
	id, err := c.memoryID()
	if err != nil {
		return unlessKnown[memory.Memory]{}, err
	}
	m, err := s.engine.Memories.Get(ctx, c.caller, c.path("project"), id)
	if err != nil {
		return unlessKnown[memory.Memory]{}, err
	}
	c.tag(m.ETag)
	known := func(one string) bool { return one == "*" || strings.TrimPrefix(one, "W/") == m.ETag }
	return unlessKnown[memory.Memory]{m, slices.ContainsFunc(c.tags(fiber.HeaderIfNoneMatch), known)}, nil
}

// forgetMemory forgets a memory. It fails with not_found if there is none.
func (s *Server) forgetMemory(ctx context.Context, c *call[nothing]) (nothing, error) {
	id, err := c.memoryID()
	if err != nil {
		return nothing{}, err
	}
	out, err := s.engine.Memories.ForgetIf(ctx, c.caller, c.once, c.path("project"), id, c.precondition())
	if err == nil && !out.Forgotten {
		err = fault.Errorf(fault.NotFound, "not_found", "no memory %q", c.path("memory"))
	}
	return nothing{}, err
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

func (s *Server) whyMemory(ctx context.Context, c *call[nothing]) (memory.Why, error) {
	id, err := c.memoryID()
	if err != nil {
		return memory.Why{}, err
	}
	return s.engine.Memories.Why(ctx, c.caller, c.path("project"), id)
}

// recall finds memories and messages for the session in the header X-Mneme-Session, in that session's namespace unless the
// query names one. Conversation memories of other sessions, or without the header of all, are found only if the query names
// their category or session.
func (s *Server) recall(ctx context.Context, c *call[recall.Query]) (recall.Result, error) {
	session := c.header(headerSession)
	c.body.Reader = &session
	if session != "" {
		if err := ident.CheckID(headerSession, session); err != nil {
			return recall.Result{}, err
		}
		var err error
		if len(c.body.Namespace) == 0 {
			c.body.Namespace, err = s.engine.Sessions.DefaultNamespace(ctx, c.caller, c.path("project"), session)
		} else {
			_, _, _, err = s.engine.Sessions.ReadHead(ctx, c.caller, c.path("project"), session)
		}
		if err != nil {
			return recall.Result{}, err
		}
	}
	return s.engine.Recall.Recall(ctx, c.caller, c.path("project"), c.body)
}
