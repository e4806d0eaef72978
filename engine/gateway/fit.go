package gateway

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// reasoning returns whose reasoning the window of a chat call shows, for window.Request.Reasoning, and the member in
// which the client sends it. In the open turn the client's messages are sent unchanged. Before it, reasoning is shown
// if the client sends reasoning or the provider's profile asks for it.
func reasoning(ask *Ask) (shown, name string) {
	if ask.Body.Format != chat.OpenAIChat {
		return window.ReasoningNone, ""
	}
	open := max(0, len(ask.Body.Messages)-len(ask.Pending))
	if name = wire.ReasoningName(ask.Body.Messages[:open]); name != "" {
		return window.ReasoningContent, name
	}
	name = wire.ReasoningName(ask.Body.Messages[open:])
	switch {
	case ask.Profile.Reasoning == provider.ReasoningAll:
		return window.ReasoningContent, cmp.Or(name, wire.ReasoningContent)
	case name != "":
		return window.ReasoningPending, name
	}
	return window.ReasoningNone, ""
}

// fit changes the messages of a chat window to what its provider accepts. The first may be the client's system prompt.
func (svc *Service) fit(out *Outgoing, w *windowed) {
	if out.ask.Body.Format != chat.OpenAIChat {
		return
	}
	profile, now := &out.ask.Profile, svc.db.Now().Unix()
	messages := w.Messages
	for i, raw := range messages {
		spoken := w.Audio && bytes.Contains(raw, []byte(`"audio"`))
		named := out.reasoning != "" && out.reasoning != wire.ReasoningContent
		noted := i > 0 && profile.Roles == provider.RolesSystemFirst
		if !spoken && !named && !noted && profile.AssistantNull != provider.AssistantNullEmpty {
			continue
		}
		o, _, _ := rawjson.ReadObject(raw)
		switch role := o.Text("role"); {
		case noted && role == "system":
			messages[i] = o.With("role", []byte(`"user"`))
			continue
		case role != "assistant":
			continue
		}
		if spoken {
			o, _, _ = rawjson.ReadObject(audioBack(&o, now))
		}
		if named && o.Get(wire.ReasoningContent) != nil {
			text := o.Get(wire.ReasoningContent)
			o, _, _ = rawjson.ReadObject(o.Without(func(_ *rawjson.Object, f *rawjson.Field) bool {
				return string(f.Name) == wire.ReasoningContent
			}))
			o, _, _ = rawjson.ReadObject(o.With(out.reasoning, text))
		}
		if profile.AssistantNull == provider.AssistantNullEmpty && o.Get("content") == nil {
			o, _, _ = rawjson.ReadObject(o.With("content", []byte(`""`)))
		}
		messages[i] = o.Raw
	}
}

// audioBack returns an assistant's message in the form in which a provider accepts its earlier audio: with the audio's
// id until expires_at, in Unix seconds, when the provider deletes the audio, and with the transcript after that. A
// message with only an id was made by the client and is returned unchanged.
func audioBack(o *rawjson.Object, now int64) []byte {
	if !rawjson.IsObject(o.Get("audio")) {
		return o.Raw
	}
	audio, _, _ := rawjson.ReadObject(o.Get("audio"))
	expires, err := strconv.ParseInt(string(audio.Get("expires_at")), 10, 64)
	transcript := audio.Text("transcript")
	switch {
	case err != nil:
		return o.Raw
	case now < expires || transcript == "":
		return o.With("audio", append(rawjson.AppendString([]byte(`{"id":`), audio.Text("id")), '}'))
	}
	spoken, _, _ := rawjson.ReadObject(o.Without(func(_ *rawjson.Object, f *rawjson.Field) bool {
		return string(f.Name) == "audio"
	}))
	return spoken.With("content", rawjson.AppendString(nil, transcript))
}
