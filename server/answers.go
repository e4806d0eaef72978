package server

import (
	"net/http"
	"reflect"
)

// nothing is the request type of routes without a body and the response type of routes without a response body.
type nothing struct{}

// rawBody is the request type of routes whose body is not JSON. Handlers read the body from raw.
type rawBody struct{}

// blob is a response that is already encoded. Its body becomes Fiber's, so nobody else may keep it.
type blob struct {
	contentType string
	body        []byte
	status      int // 0 means the route's status
}

func (b blob) answer() (any, int) { return b, b.status }

// stored is the response of routes that create or change something. Its status is 201 if the thing is new, otherwise
// 200.
type stored[T any] struct {
	value   T
	created bool
}

func (s stored[T]) answer() (any, int) {
	if s.created {
		return s.value, http.StatusCreated
	}
	return s.value, http.StatusOK
}

// described returns the type that openapi.json describes in place of stored[T].
func (stored[T]) described() reflect.Type { return reflect.TypeFor[T]() }

// unlessKnown is the response of a GET. Its status is 304 if the client already has the current version.
type unlessKnown[T any] struct {
	value T
	known bool
}

func (u unlessKnown[T]) answer() (any, int) {
	if u.known {
		return nothing{}, http.StatusNotModified
	}
	return u.value, 0
}

// described returns the type that openapi.json describes in place of unlessKnown[T].
func (unlessKnown[T]) described() reflect.Type { return reflect.TypeFor[T]() }

// spliced is JSON in the shape of T. The engine assembles it from stored messages without decoding them.
type spliced[T any] []byte

func (s spliced[T]) answer() (any, int) { return blob{contentType: jsonType, body: s}, 0 }

func (spliced[T]) described() reflect.Type { return reflect.TypeFor[T]() }
