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

// What is known of a connection, beside what pgx knows.
type link struct {
	epoch  epoch // of the database when the connection was made
	warned bool  // the database has warned since this was last set to false
}

const linkKey = "mneme"

func linkOf(conn *pgxpool.Conn) *link { return conn.Conn().PgConn().CustomData()[linkKey].(*link) }

// How soon a connection is given up whose other side is gone without a word.
const (
	idleBeforeProbe = 10 * time.Second // without traffic, until the system asks whether the other side is there
	betweenProbes   = 3 * time.Second
	mostProbes      = 3
	unacknowledged  = 10 * time.Second // for what was sent
	pinging         = time.Second      // for an answer, before a connection is used that was idle
)

// pool makes the pool of one sort of keys. It connects when first used.
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
	// A standby answers too, late and without writes: never take one by mistake.
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
	// A plan made while the table was small reads all of it, and is kept when the table has grown.
	params["enable_seqscan"] = "off"
	if loose {
		c.MaxConns = max(2, c.MaxConns/4)
		params["synchronous_commit"] = "off"
	}
	adjust(c)
	return pgxpool.NewWithConfig(ctx, c)
}

// errNoConnection is a call that got no connection in time. It says nothing against the connections that there are.
var errNoConnection = errors.New("no connection to the database")

// acquire takes a connection from a pool, or makes one.
func acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, acquiring)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoConnection, err)
	}
	return conn, nil
}

// errStandby is a host that answers and takes no writes.
var errStandby = errors.New("the host is not a primary")

// hopeless tells whether no host of the URL can ever be used as things are: each answers, and is a standby or shows a
// certificate that the URL's authorities did not sign. While a host does not answer, it may be the primary.
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

// dropDead closes all idle connections, and those in use as they come back, where an attempt got no answer: the
// machine behind them may be gone, and each of them would cost as long again.
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

// timedOut tells whether an attempt ended because its time was up.
func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout()
}
