package server

import (
	"net/http"
	"reflect"
)

// nothing is the request of routes that take no body and the response of those that answer none.
type nothing struct{}

// rawBody is the request of routes whose body is not JSON; the handler finds it in raw.
type rawBody struct{}

// blob is a response that is encoded already.
type blob struct {
	contentType string
	body        []byte
	code        int // the status; 0: the route's
}

// stored is the response of routes that make a thing or change it: 201 says that it is new, 200 that it was there.
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

func (stored[T]) described() reflect.Type { return reflect.TypeFor[T]() }

// spliced is JSON that the engine has put together by hand, in the shape of T.
type spliced[T any] []byte

func (s spliced[T]) answer() (any, int) { return blob{contentType: jsonType, body: s}, 0 }

func (spliced[T]) described() reflect.Type { return reflect.TypeFor[T]() }
