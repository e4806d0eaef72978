package server

import (
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/gateway/relay"
	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
)

// A client may leave before its call has ended.

// errGone is the cause of the end of a call whose client has closed its connection.
var errGone = errors.New("the client has gone")

// left is called when the client has gone. The call ends, or continues for its session if that does not take long.
func (call *modelCall) left() {
	if call.outlives() {
		time.AfterFunc(relay.DrainTime, func() { call.cancel(errGone) })
		return
	}
	call.cancel(errGone)
}

// outlives reports whether the call continues although its client has gone.
func (call *modelCall) outlives() bool {
	return call.turn.exchange != nil && call.setup.Settings.ProxyOnDisconnect == "finish"
}

// gone ends a call whose client has closed its connection.
func (call *modelCall) gone(status int) error {
	call.failed(status, "client_gone", wire.Usage{})
	return refuse(statusGone, "client_gone", "the client closed its connection")
}

// leaving is a client that may leave without ending the call.
type leaving struct {
	out   *stream
	stays bool // the call continues without it
	gone  bool
}

func (l *leaving) Write(b []byte) (int, error) {
	if l.gone {
		return len(b), nil
	}
	n, err := l.out.Write(b)
	return n, l.noted(err)
}

func (l *leaving) Flush() error {
	if l.gone {
		return nil
	}
	return l.noted(l.out.Flush())
}

func (l *leaving) noted(err error) error {
	if l.gone = err != nil && l.stays; l.gone {
		return nil
	}
	return err
}
