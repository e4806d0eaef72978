package foreign

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// entity is an entity of the MCP reference memory server.
type entity struct {
	Name         string     `json:"name"`
	EntityType   string     `json:"entityType"`
	Observations []string   `json:"observations"`
	Relations    []relation `json:"relations"`
}

type relation struct {
	From         string `json:"from,omitempty"`
	To           string `json:"to"`
	RelationType string `json:"relationType"`
}

// readMCPMemory reads the graph of the MCP reference memory server.
func readMCPMemory(src *source) error {
	g := &graph{src: src, byName: map[string]*entity{}}
	err := src.each(func(v *value) error {
		if src.bad(v) {
			return nil
		}
		raw := src.whole(v.raw)
		if o := parseObject(raw); o.has("entities", "relations") {
			for _, e := range o.list("entities") {
				g.entity(e)
			}
			for _, r := range o.list("relations") {
				g.relation(r)
			}
			return nil
		}
		switch kind := parseObject(raw).text("type"); kind {
		case "entity":
			g.entity(raw)
		case "relation":
			g.relation(raw)
		default:
			src.report.unknown(kind)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range g.relations {
		of := g.byName[r.From]
		if of == nil {
			src.report.unknown("relation")
			continue
		}
		r.From = ""
		if !slices.Contains(of.Relations, r) {
			of.Relations = append(of.Relations, r)
		}
	}
	for _, e := range g.list {
		m := Memory{Namespace: []string{"graph"}, Key: e.Name, Content: e.sentences(), Value: encode(e)}
		if e.EntityType != "" {
			m.Tags = []string{e.EntityType}
		}
		if err := src.memory(mcpMemory, m); err != nil {
			return err
		}
	}
	return nil
}

type graph struct {
	src       *source
	list      []*entity
	byName    map[string]*entity
	relations []relation
}

// entity adds an entity. One of the same name gets the observations that it lacks.
func (g *graph) entity(raw []byte) {
	var e entity
	if json.Unmarshal(raw, &e) != nil || e.Name == "" {
		g.src.report.unknown("entity")
		return
	}
	e.Relations = []relation{}
	old := g.byName[e.Name]
	if old == nil {
		old = &entity{Name: e.Name, EntityType: e.EntityType, Observations: []string{}, Relations: []relation{}}
		g.byName[e.Name] = old
		g.list = append(g.list, old)
	}
	for _, o := range e.Observations {
		if !slices.Contains(old.Observations, o) {
			old.Observations = append(old.Observations, o)
		}
	}
}

func (g *graph) relation(raw []byte) {
	var r relation
	if json.Unmarshal(raw, &r) != nil || r.To == "" {
		g.src.report.unknown("relation")
		return
	}
	g.relations = append(g.relations, relation{r.From, r.To, r.RelationType})
}

// sentences returns the entity as text: name, type, observations and relations.
func (e *entity) sentences() string {
	lines := []string{e.Name}
	if e.EntityType != "" {
		lines[0] += " (" + e.EntityType + ")"
	}
	lines = append(lines, e.Observations...)
	for _, r := range e.Relations {
		lines = append(lines, fmt.Sprintf("%s %s %s.", e.Name, strings.ReplaceAll(r.RelationType, "_", " "), r.To))
	}
	return strings.Join(lines, "\n")
}
