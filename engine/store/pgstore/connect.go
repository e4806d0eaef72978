package pgstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What is known about a connection, in addition to what pgx knows.
type link struct {
	epoch  epoch // of the database when the connection was made
	warned bool  // the database has sent a warning since this was last reset
}

const linkKey = "mneme"

func linkOf(conn *pgxpool.Conn) *link { return conn.Conn().PgConn().CustomData()[linkKey].(*link) }

// How soon a connection is closed if its peer has vanished.
const (
	idleBeforeProbe = 10 * time.Second // without traffic, until the system probes the peer
	betweenProbes   = 3 * time.Second
	mostProbes      = 3
	unacknowledged  = 10 * time.Second // for sent data
	pinging         = time.Second      // for a response, before an idle connection is used again
)

// pool returns the pool for one class of keys. It connects when it is first used.
func (s *Store) pool(ctx context.Context, url string, loose bool, adjust func(*pgxpool.Config)) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(url, "pool_max_conns") {
		c.MaxConns = DefaultConns
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = connecting
	}
	c.PingTimeout = cmp.Or(c.PingTimeout, pinging)
	dialer := &net.Dialer{Control: giveUpUnacknowledged, KeepAliveConfig: net.KeepAliveConfig{Enable: true,
		Idle: idleBeforeProbe, Interval: betweenProbes, Count: mostProbes}}
	c.ConnConfig.DialFunc = dialer.DialContext
	// A standby also responds, with old data and without writes, so refuse it.
	wanted := c.ConnConfig.ValidateConnect
	if wanted == nil {
		wanted = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	c.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := wanted(ctx, conn); err != nil {
			if ctx.Err() == nil && !isNetwork(err) {
				err = errors.Join(errStandby, err)
			}
			return err
		}
		e, err := s.askEpoch(ctx, conn)
		if err == nil {
			err = s.learn(e)
		}
		conn.CustomData()[linkKey] = &link{epoch: e}
		return err
	}
	c.ConnConfig.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if l, ok := conn.CustomData()[linkKey].(*link); ok && n.Code == warning {
			l.warned = true
		}
	}
	params := c.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(params["application_name"], "mneme")
	// A plan that was made while the table was small reads all of it, and is still used when the table has grown.
	params["enable_seqscan"] = "off"
	// All statements find rows by whole keys or in key order, so no plan depends on the arguments. Left to itself, the
	// database plans a statement anew each time that its arrays are short.
	params["plan_cache_mode"] = "force_generic_plan"
	if loose {
		c.MaxConns = max(2, c.MaxConns/4)
		params["synchronous_commit"] = "off"
	}
	adjust(c)
	return pgxpool.NewWithConfig(ctx, c)
}

// errNoConnection is returned if a call got no connection in time. It does not mean that existing connections are
// bad.
var errNoConnection = errors.New("no connection to the database")

// acquire takes a connection from a pool, or creates one.
func (s *Store) acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.acquiring)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoConnection, err)
	}
	return conn, nil
}

// errStandby is returned for a host that responds but accepts no writes.
var errStandby = errors.New("the host is not a primary")

// hopeless reports whether no host of the URL can be used without a change: each one responds, and is a standby or
// has a certificate that the URL's authorities did not sign. A host that does not respond may be the primary.
func hopeless(err error) bool {
	failed, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return false
	}
	hosts, ok := failed.Unwrap().(interface{ Unwrap() []error })
	if !ok {
		return false
	}
	for _, err := range hosts.Unwrap() {
		if !errors.Is(err, errStandby) && !errors.As(err, new(*tls.CertificateVerificationError)) {
			return false
		}
	}
	return true
}

// dropDead closes all idle connections, and those in use when they are returned, after an attempt got no response:
// their machine may be down, and each of them would cost the same timeout.
func (s *Store) dropDead(err error) {
	if isNetwork(err) && timedOut(err) && !errors.Is(err, errNoConnection) {
		s.reset()
	}
}

func (s *Store) reset() {
	s.count.resets.Add(1)
	s.main.Reset()
	s.loose.Reset()
}

// timedOut reports whether an attempt ended because of its timeout.
func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout()
}
