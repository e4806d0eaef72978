package openai

import (
	"context"
	"net/http"

	openai "github.com/sashabaranov/go-openai"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
)

// Embedder implements recall.Embedder: it computes vectors with `/embeddings`. It is safe for concurrent use.
type Embedder struct{ provider *Summariser }

// NewEmbedder returns an Embedder. Its errors, and those of Embed, never contain the key or the address.
func NewEmbedder(o Options) (*Embedder, error) {
	s, err := New(o)
	return &Embedder{s}, err
}

// Embed makes one HTTP request; the caller decides when to retry. Its error is a *recall.ProviderError.
func (e *Embedder) Embed(ctx context.Context, r recall.EmbedRequest) (recall.Embedded, error) {
	call, cancel := context.WithTimeout(ctx, e.provider.timeout)
	defer cancel()
	res, err := e.provider.client.CreateEmbeddings(call, openai.EmbeddingRequestStrings{Input: r.Texts,
		Model: openai.EmbeddingModel(r.Model), Dimensions: r.Dimensions})
	if err != nil {
		failed := e.provider.failure(call, ctx, err, res.Header())
		status, code := answered(err)
		if failed.Code == "bad_reply" && status == 0 {
			failed.Detail = "the answer is not the JSON of embeddings, or is too long"
		}
		return recall.Embedded{}, &recall.ProviderError{Code: failed.Code, Detail: failed.Detail,
			RetryAfter: failed.RetryAfter, Texts: ofTexts(status, code)}
	}
	out := recall.Embedded{Vectors: make([][]float32, len(r.Texts)), Tokens: used(res.Usage.TotalTokens)}
	for _, one := range res.Data {
		if one.Index < 0 || one.Index >= len(r.Texts) || out.Vectors[one.Index] != nil {
			return out, &recall.ProviderError{Code: "bad_reply", Detail: "the answer's vectors are not those of the texts"}
		}
		out.Vectors[one.Index] = one.Embedding
	}
	for _, v := range out.Vectors {
		if v == nil {
			return out, &recall.ProviderError{Code: "bad_reply", Detail: "the answer lacks the vector of a text"}
		}
	}
	return out, nil
}

// ofTexts reports whether the texts may be the reason for an error response, rather than the key, the model, or the
// account.
func ofTexts(status int, code string) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return code != "model_not_found" && code != "invalid_api_key" && code != "insufficient_quota"
	}
	return false
}
