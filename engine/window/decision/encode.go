package decision

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// Every window writes a decision, its row, and much of both into its response. The functions below write the same JSON
// as encoding/json, in a tenth of the time. Rare fields are left to encoding/json.

func appendNumber(dst []byte, name string, n uint64) []byte {
	return strconv.AppendUint(rawjson.AppendName(dst, name), n, 10)
}

func appendText(dst []byte, name, s string) []byte {
	return rawjson.AppendString(rawjson.AppendName(dst, name), s)
}

func appendBool(dst []byte, name string, b bool) []byte {
	return strconv.AppendBool(rawjson.AppendName(dst, name), b)
}

// appendSome appends a list or a map of n elements, unless n is 0.
func appendSome(dst []byte, name string, v any, n int) ([]byte, error) {
	if n == 0 {
		return dst, nil
	}
	return rawjson.AppendJSON(rawjson.AppendName(dst, name), v)
}

// appendList appends a list, or null if it is nil.
func appendList[T any](dst []byte, list []T, element func([]byte, *T) []byte) []byte {
	if list == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = element(dst, &list[i])
	}
	return append(dst, ']')
}

// Append appends the usage as JSON.
func (u *Usage) Append(dst []byte) []byte {
	dst = appendNumber(append(dst, '{'), "messages", u.Messages)
	dst = appendNumber(dst, "tokens", u.Tokens)
	dst = appendNumber(dst, "history_messages", u.HistoryMessages)
	dst = appendNumber(dst, "compressed_messages", u.CompressedMessages)
	dst = appendNumber(dst, "history_tokens", u.HistoryTokens)
	dst = appendNumber(dst, "system_tokens", u.SystemTokens)
	dst = appendNumber(dst, "considered_messages", u.ConsideredMessages)
	dst = appendNumber(dst, "considered_tokens", u.ConsideredTokens)
	p := &u.Parts
	dst = appendNumber(append(rawjson.AppendName(dst, "parts"), '{'), "system", p.System)
	dst = appendNumber(dst, "tools", p.Tools)
	dst = appendNumber(dst, "summary", p.Summary)
	dst = appendNumber(dst, "memories", p.Memories)
	dst = appendNumber(dst, "marker", p.Marker)
	dst = appendNumber(dst, "history", p.History)
	dst = appendNumber(dst, "pending", p.Pending)
	dst = appendNumber(dst, "reserved", p.Reserved)
	dst = append(appendNumber(dst, "free", p.Free), '}')
	dst = rawjson.AppendName(dst, "prefix")
	if u.Prefix == nil {
		return append(dst, "null}"...)
	}
	dst = appendNumber(append(dst, '{'), "messages", u.Prefix.Messages)
	dst = appendNumber(dst, "tokens", u.Prefix.Tokens)
	dst = strconv.AppendFloat(rawjson.AppendName(dst, "share"), u.Prefix.Share, 'f', -1, 64)
	return append(dst, "}}"...)
}

// AppendSteps appends the outcomes of steps as JSON.
func AppendSteps(dst []byte, steps []Step) []byte { return appendList(dst, steps, appendStep) }

func appendStep(dst []byte, s *Step) []byte {
	dst = appendText(append(dst, '{'), "policy", s.Policy)
	dst = strconv.AppendInt(rawjson.AppendName(dst, "version"), int64(s.Version), 10)
	dst = appendText(dst, "digest", s.Digest)
	dst = appendNumber(dst, "fuel", s.Fuel)
	dst = appendNumber(dst, "duration_us", s.Duration)
	dst = appendText(dst, "outcome", string(s.Outcome))
	if s.Detail != "" {
		dst = appendText(dst, "detail", s.Detail)
	}
	if len(s.Log) > 0 {
		dst = appendList(rawjson.AppendName(dst, "log"), s.Log, func(dst []byte, l *LogLine) []byte {
			return append(appendText(appendText(append(dst, '{'), "level", l.Level), "message", l.Message), '}')
		})
	}
	return append(dst, '}')
}

// encode returns the record's JSON. The request is appended as received.
func (r *Record) encode() ([]byte, error) {
	dst := make([]byte, 0, 1280+128*len(r.Steps)+len(r.Request))
	dst = strconv.AppendInt(rawjson.AppendName(append(dst, '{'), "rules"), int64(r.Rules), 10)
	dst = strconv.AppendInt(rawjson.AppendName(dst, "at"), r.At, 10)
	dst = append(strconv.AppendUint(append(rawjson.AppendName(dst, "seed"), '"'), r.Seed, 10), '"')
	if r.ForkOf != "" {
		dst = appendText(dst, "fork_of", r.ForkOf)
	}
	dst = appendText(dst, "session", r.Session)
	dst, err := r.Extent.append(rawjson.AppendName(dst, "extent"))
	if err != nil {
		return nil, err
	}
	if r.Tokens > 0 {
		dst = appendNumber(dst, "tokens", r.Tokens)
	}
	dst = appendBool(appendBool(dst, "bare", r.Bare), "tight", r.Tight)
	if r.Shortened {
		dst = appendBool(dst, "shortened", true)
	}
	if dst, err = appendSome(dst, "names", r.Names, len(r.Names)); err != nil {
		return nil, err
	}
	if r.Summary > 0 {
		dst = appendNumber(dst, "summary", uint64(r.Summary))
	}
	if dst, err = appendSome(dst, "memories", r.Memories, len(r.Memories)); err != nil {
		return nil, err
	}
	if r.Reminder != nil {
		if dst, err = rawjson.AppendJSON(rawjson.AppendName(dst, "reminder"), r.Reminder); err != nil {
			return nil, err
		}
	}
	if dst, err = appendSome(dst, "forgotten", r.Forgotten, len(r.Forgotten)); err != nil {
		return nil, err
	}
	dst = appendText(appendNumber(dst, "revision", r.Revision), "window", r.Window)
	dst = r.Usage.Append(rawjson.AppendName(dst, "usage"))
	if r.Cut {
		dst = appendBool(dst, "cut", true)
	}
	if dst, err = r.Prompt.append(rawjson.AppendName(dst, "prompt")); err != nil {
		return nil, err
	}
	dst = AppendSteps(rawjson.AppendName(appendText(dst, "effective", r.Effective), "steps"), r.Steps)
	dst = rawjson.AppendName(dst, "request")
	if len(r.Request) == 0 {
		return append(dst, "{}}"...), nil
	}
	return append(append(dst, r.Request...), '}'), nil
}

func (x *Extent) append(dst []byte) ([]byte, error) {
	dst = appendText(append(dst, '{'), "incarnation", x.Incarnation.String())
	dst = appendNumber(appendNumber(dst, "turns", uint64(x.Turns)), "messages", x.Messages)
	dst, err := appendSome(dst, "superseded", x.Superseded, len(x.Superseded))
	if x.Edits > 0 {
		dst = appendNumber(dst, "edits", uint64(x.Edits))
	}
	return append(dst, '}'), err
}

func (p *Prompt) append(dst []byte) ([]byte, error) {
	end, err := p.End.MarshalText()
	if err != nil {
		return nil, err
	}
	dst = appendText(append(dst, '{'), "end", string(end))
	if dst, err = appendSome(dst, "made", p.Made, len(p.Made)); err != nil {
		return nil, err
	}
	dst, err = appendSome(dst, "breakpoints", p.Breakpoints, len(p.Breakpoints))
	return append(dst, '}'), err
}

// encode returns the row as it is stored: the JSON of a storedRow.
func (r *Row) encode() ([]byte, error) {
	dst := append(make([]byte, 0, 1024), '{')
	if r.ID != "" {
		dst = appendText(dst, "id", r.ID)
	}
	dst = appendNumber(appendText(dst, "session", r.Session), "turn", uint64(r.Turn))
	dst = append(r.At.AppendFormat(append(rawjson.AppendName(dst, "at"), '"'), time.RFC3339Nano), '"')
	if r.ForkOf != "" {
		dst = appendText(dst, "fork_of", r.ForkOf)
	}
	dst = append(rawjson.AppendName(dst, "viewer"), '{')
	if r.Viewer.Agent != "" {
		dst = appendText(dst, "agent", r.Viewer.Agent)
	}
	if r.Viewer.DelegationID != nil {
		dst = appendText(dst, "delegation_id", *r.Viewer.DelegationID)
	}
	if r.Viewer.Alone {
		dst = appendBool(dst, "alone", true)
	}
	if r.Viewer.Whole {
		dst = appendBool(dst, "whole", true)
	}
	if r.Viewer.ResultTokens != nil {
		dst = strconv.AppendInt(rawjson.AppendName(dst, "result_tokens"), int64(*r.Viewer.ResultTokens), 10)
	}
	dst = appendText(append(dst, '}'), "format", r.Format)
	dst = appendNumber(append(rawjson.AppendName(dst, "left_out"), '{'), "count", r.LeftOut.Count)
	dst = append(appendNumber(dst, "tokens", r.LeftOut.Tokens), '}')
	if r.OfCall != (OfCall{}) {
		call, err := json.Marshal(&r.OfCall)
		if err != nil {
			return nil, err
		}
		dst = append(append(dst, ','), call[1:len(call)-1]...)
	}
	dst = appendBool(r.Usage.Append(rawjson.AppendName(dst, "usage")), "cut", r.Cut)
	dst = appendList(rawjson.AppendName(dst, "outcomes"), r.Outcomes, func(dst []byte, o *Outcome) []byte {
		dst = appendText(append(dst, '{'), "policy", o.Policy)
		dst = strconv.AppendInt(rawjson.AppendName(dst, "version"), int64(o.Version), 10)
		return append(appendText(dst, "outcome", string(o.Outcome)), '}')
	})
	return append(dst, '}'), nil
}
