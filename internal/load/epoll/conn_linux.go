package epoll

import (
	"net/netip"

	"github.com/tare-mesh/tare/internal/load/http1"
	"github.com/tare-mesh/tare/internal/load/http2"
	"github.com/tare-mesh/tare/internal/load/stream"
	"github.com/tare-mesh/tare/internal/load/websocket"
)

type connState uint8

const (
	connClosed     connState = iota // no socket, and the next attempt is due at retryAt
	connConnecting                  // the socket is on its way
	connHandshake                   // connected, the TLS handshake is under way
	connIdle                        // connected, in its pool's ring of free connections
	connBusy                        // a request is under way
	connSettings                    // HTTP/2: connected, the server's settings are yet to come
	connSession                     // HTTP/2: requests may be under way on its streams
	connUpgrade                     // WebSocket: connected, the handshake is under way
	connOpening                     // tcp: connected, the opening is under way
)

// conn is one connection and the request it carries. Its socket comes and goes,
// but the place stays.
type conn struct {
	socket
	index      int32
	generation int32 // of the socket: an event for an earlier one is stale
	state      connState
	carries    bool // a request is attached (busy, or waiting for connect)
	pool       *pool

	call
	bytes            []byte  // of the request under way
	written          int     // of them
	reused           bool    // the connection was not opened for its request
	served           bool    // the connection has carried an answer
	spent            float64 // share of the requests after which the connection is replaced
	openEnd          int64   // deadline of opening it, with all addresses
	opened, first    int64   // when the connect began, when the answer's first byte came
	addrs            []netip.AddrPort
	turn, tried      int // of addrs: the first to be tried, and how many have been
	backoff, retryAt int64
	awaited

	arrived stream.Times // messages of the answer under way, not of HTTP/2
	parser  http1.Parser
	session *http2.Session // HTTP/2, nil for HTTP/1.1
	calls   []streamCall   // by the session's streams

	messages *websocket.Conn // WebSocket, nil for other protocols
	listed   bool            // in its pool's ring of free connections
	queued   bool            // in the worker's list of sessions with something to send
	holding  bool            // in the holder's list
	heir     *conn           // the place that this one's session, which the server ends, had; it is not opened again
	leaving  int             // requests under way on such sessions of this place
}

// call is one request, whose instants are ns from t0.
type call struct {
	intended int64
	free     int64 // when a connection could have taken it
	sent     int64 // for the first time, opening its connection included
	reached  bool  // an open connection got it
	retries  int32 // how often it was retried
	what     *request
}

// sentAt is sent, or negative if no open connection got the request.
func (r *call) sentAt() int64 {
	if r.reached {
		return r.sent
	}
	return -1
}

// streamCall is the request on one stream.
type streamCall struct {
	awaited
	call
}

// place is a connection as it was when it entered a ring. If its generation has
// moved on, the entry is stale and skipped.
type place struct {
	*conn
	generation int32
}

func (c *conn) place() place { return place{c, c.generation} }

// unlist notes that c has left its pool's ring of free connections. It reports
// whether c can take a request.
func (c *conn) unlist() bool {
	c.listed = false
	return c.session == nil || c.session.Room()
}

func (p place) current() bool { return p.generation == p.conn.generation }

// connection is the index of the profile's connection that c is, or was before the server ended its session.
func (c *conn) connection() int32 {
	if c.heir != nil {
		return c.heir.index
	}
	return c.index
}
