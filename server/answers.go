package server

import (
	"net/http"
	"reflect"
)

// nothing is the request of routes that take no body and the response of those that answer none.
type nothing struct{}

// rawBody is the request of routes whose body is not JSON; the handler finds it in raw.
type rawBody struct{}

// blob is a response that is encoded already. Its body becomes Fiber's, so nobody else may keep it.
type blob struct {
	contentType string
	body        []byte
	status      int // 0: the route's
}

func (b blob) answer() (any, int) { return b, b.status }

// stored is the response of routes that make a thing or change it. Its status is 201 where the thing is new, else 200.
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

// described is the type that openapi.json describes in place of stored[T].
func (stored[T]) described() reflect.Type { return reflect.TypeFor[T]() }

// unlessKnown is the response of a GET that answers 304 where the client has the thing already.
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

// described is the type that openapi.json describes in place of unlessKnown[T].
func (unlessKnown[T]) described() reflect.Type { return reflect.TypeFor[T]() }

// spliced is JSON in the shape of T that the engine has put together itself, so that stored messages are not decoded.
type spliced[T any] []byte

func (s spliced[T]) answer() (any, int) { return blob{contentType: jsonType, body: s}, 0 }

func (spliced[T]) described() reflect.Type { return reflect.TypeFor[T]() }
