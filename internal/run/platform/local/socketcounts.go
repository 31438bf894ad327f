package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/app"
	loads "github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// socketCounts counts the requests that reach the entry's program behind proxies without counters, if it is the user's: the
// bytes that its sockets have received, over the bytes of a request as it arrives there.
type socketCounts struct {
	layout  *layout
	bytes   map[*pod]*receivedBytes // nil before learn
	each    int64                   // bytes of a request as it arrives
	unknown error                   // why requests are not counted
}

const (
	// samples is the number of requests that the size is learned from, and mostSamples of them must have it. A proxy may answer
	// or repeat the others.
	samples     = 12
	mostSamples = 8
	// learning bounds the time, after which leastSamples are enough.
	learning     = 3 * time.Second
	leastSamples = 4
	// arrival bounds the wait for the bytes of a request after its answer.
	arrival = 200 * time.Millisecond
)

// needed reports whether nothing else counts the entry's requests.
func (sc *socketCounts) needed() bool {
	return sc.layout.proxied() && sc.layout.spec.Entry().IsOwn() && !sc.layout.spec.Mesh.Local.Verify.Counts()
}

// learn finds out how many bytes a request of the load has when it arrives.
func (sc *socketCounts) learn(ctx context.Context, p loads.Profile) {
	if sc.needed() && sc.bytes == nil {
		if sc.each, sc.unknown = sc.size(ctx, p); sc.unknown != nil {
			sc.close()
		}
	}
}

// count adds the count of a replica of the entry.
func (sc *socketCounts) count(p *pod, from balance.Count) balance.Count {
	switch of := sc.bytes[p]; {
	case from.Unknown != "":
	case sc.unknown != nil:
		from.Unknown = sc.unknown.Error()
	case of == nil:
		from.Unknown = "your own program has no counter that tare reads"
	default:
		n, err := of.read()
		if err != nil {
			from.Unknown = err.Error()
			break
		}
		from.Count, from.Bytes = (n+sc.each/2)/sc.each, sc.each
	}
	return from
}

func (sc *socketCounts) close() {
	for _, r := range sc.bytes {
		_ = r.close()
	}
	sc.bytes = map[*pod]*receivedBytes{}
}

// size returns the bytes of a request, from requests as the load engine writes them.
func (sc *socketCounts) size(ctx context.Context, p loads.Profile) (int64, error) {
	sc.bytes = map[*pod]*receivedBytes{}
	entry := sc.layout.spec.Entry()
	if protocol := sc.layout.pods[entry.Name][0].carried(); protocol != app.HTTP1 && protocol != "" {
		return 0, fmt.Errorf("requests of %s are not counted by the bytes of sockets", protocol)
	}
	if sc.layout.spec.Mesh.Provides.Retries {
		return 0, errors.New("the mesh may repeat requests, and counts none")
	}
	targets, err := requestsOfEngine(ctx, p)
	if err != nil {
		return 0, err
	}
	for _, p := range sc.layout.pods[entry.Name] {
		r, err := newReceivedBytes(p.app)
		if err != nil {
			return 0, err
		}
		sc.bytes[p] = r
	}
	client, began, last := &rawClient{}, time.Now(), int64(0)
	defer func() { // the end of the connection is announced some time after it
		client.close()
		_, _ = sc.settled(ctx, last-samples)
	}()
	var sizes requestSizes
	for i := range max(samples, min(len(targets), 4*samples)) {
		if len(sizes.seen) >= leastSamples && time.Since(began) > learning {
			break
		}
		t := targets[i%len(targets)]
		before, err := sc.received()
		if err == nil {
			err = client.send(ctx, t)
		}
		if err != nil {
			return 0, fmt.Errorf("learn the size of a request: %w", err)
		}
		after, err := sc.settled(ctx, before)
		if err != nil {
			return 0, err
		}
		last = after
		sizes.add(after - before)
	}
	return sizes.common()
}

// requestSizes are the bytes of requests that arrived one after another.
type requestSizes struct {
	seen []int64
	late bool // the last request brought no bytes
}

// add adds the bytes that arrived with a request. Without bytes a proxy has answered, or the kernel announces the end of their
// connection later, which adds them to the next request: neither that request nor the next one is a sample.
func (s *requestSizes) add(bytes int64) {
	if bytes > 0 && !s.late {
		s.seen = append(s.seen, bytes)
	}
	s.late = bytes == 0
}

// common returns the size that mostSamples of samples have.
func (s *requestSizes) common() (int64, error) {
	times := map[int64]int{}
	for _, size := range s.seen {
		if times[size]++; len(s.seen) >= leastSamples && times[size]*samples >= mostSamples*len(s.seen) {
			return size, nil
		}
	}
	if len(s.seen) < leastSamples {
		return 0, fmt.Errorf("too few requests arrive to learn their size: %d, %d needed", len(s.seen), leastSamples)
	}
	return 0, fmt.Errorf("requests arrive in several sizes (bytes: times): %v", times)
}

// requestsOfEngine are the requests to the targets of p as the load engine writes them.
func requestsOfEngine(ctx context.Context, p loads.Profile) ([]target.Target, error) {
	p = p.WithDefaults()
	all, err := target.Resolve(ctx, &p, target.Body(&p), net.DefaultResolver.LookupNetIP)
	for _, t := range all {
		if len(t.Addrs) == 0 {
			return nil, errors.New("a target has no address")
		}
	}
	return all, err
}

func (sc *socketCounts) received() (all int64, err error) {
	for _, r := range sc.bytes {
		n, err := r.read()
		if err != nil {
			return 0, err
		}
		all += n
	}
	return all, nil
}

// settled returns the received bytes once two readings agree on more than before, or after the time of arrival.
func (sc *socketCounts) settled(ctx context.Context, before int64) (last int64, err error) {
	for began := time.Now(); ; {
		over := time.Since(began) > arrival // before the reading: it may wait for a processor
		now, err := sc.received()
		if err != nil || now == last && now > before || over {
			return now, err
		}
		last = now
		if err := wait.For(ctx, adminPause); err != nil {
			return 0, err
		}
	}
}

// rawClient sends the bytes of requests, on one connection while the server keeps it.
type rawClient struct {
	conn net.Conn
	in   *bufio.Reader
}

func (c *rawClient) send(ctx context.Context, t target.Target) error {
	if c.conn == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", t.Addrs[0].String())
		if err != nil {
			return err
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	if err := c.conn.SetDeadline(time.Now().Add(probeTimeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(t.Request); err != nil {
		return err
	}
	method, _, _ := strings.Cut(string(t.Request), " ")
	answer, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if err != nil || answer.Close {
		c.close()
	}
	return err
}

func (c *rawClient) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}
