package engine

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
)

// countConns counts connections on their way to handle.
func countConns(n *atomic.Int64, handle func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		n.Add(1)
		handle(c)
	}
}

func TestNoKeepAliveConnectsForEveryRequest(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{200, 0} {
		var conns atomic.Int64
		p := profile(rawServer(t, countConns(&conns, replyingOnce(helloResponse))))
		p.NoKeepAlive, p.Warmup, p.Tail = true, 0, 0
		r := mustRun(t, atRate(p, rate, 100))
		if r.Requests != 100 || r.Classes[load.OK] != r.Requests || conns.Load() != r.Requests {
			t.Errorf("rate %v: %d requests on %d connections, %v", rate, r.Requests, conns.Load(), r.Errors)
		}
	}

}

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	var wrong atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if got := fmt.Sprint(r.Method, r.URL, r.Host, r.Header, string(b)); !strings.Contains(got, `PUT/p?q=1example.test`) ||
			!strings.Contains(got, `X-One:[two: three]`) || !strings.Contains(got, "Content-Type:[application/json]") || !strings.HasSuffix(got, `{"a": 1}`) {
			wrong.Store(got)
		}
	}))
	defer s.Close()
	p := profile(s.URL + "/p?q=1")
	p.Method, p.Body, p.Rate = http.MethodPut, []byte(`{"a": 1}`), 50
	p.Headers = []string{"host: example.test", "X-One: two: three", "Content-Type: application/json"}
	if r := mustRun(t, p); r.Classes[load.OK] != 25 || wrong.Load() != nil {
		t.Errorf("%v: %v", r.Classes, wrong.Load())
	}

}

func TestWeights(t *testing.T) {
	t.Parallel()
	var n [2]atomic.Int64
	server := func(i int) string {
		return rawServer(t, answering(func(c net.Conn, _ int) bool {
			n[i].Add(1)
			_, err := c.Write([]byte(helloResponse))
			return err == nil
		}))
	}
	p := profile(server(0), server(1))
	p.Weights, p.Warmup, p.Tail = []int{4, 1}, 0, 0
	mustRun(t, p)
	if n[0].Load() != 200 || n[1].Load() != 50 {
		t.Errorf("%d and %d requests", n[0].Load(), n[1].Load())
	}

}

// TestFirstByteAndConnectTimes runs against a server that sends its header at once and its body later.
func TestFirstByteAndConnectTimes(t *testing.T) {
	t.Parallel()
	const rest = 100 * time.Millisecond
	p := profile(rawServer(t, answering(func(c net.Conn, _ int) bool {
		head, body, _ := strings.Cut(helloResponse, "\r\n\r\n")
		_, _ = io.WriteString(c, head+"\r\n\r\n")
		time.Sleep(rest)
		_, err := io.WriteString(c, body)
		return err == nil
	})))
	p.Rate = 40
	r := mustRun(t, p)
	least := rest.Seconds() * 1e3
	if r.TTFBMS.Count != 20 || r.ServiceMS.Mean-r.TTFBMS.Mean < least/2 || r.ServiceMS.P50 < least {
		t.Errorf("first byte %+v, whole %+v", r.TTFBMS, r.ServiceMS)
	}
	if r.ConnectMS.Count != 8 {
		t.Errorf("connects %+v", r.ConnectMS)
	}

}

func TestBodyChecks(t *testing.T) {
	t.Parallel()
	url := rawServer(t, replying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{\"smile\r\n14\r\n\": 1, \"errors\": [5]}\r\n0\r\n\r\n"))
	for _, test := range []struct {
		has, lacks []string
		class      load.Class
	}{
		{[]string{`"smiley"`}, nil, load.Status},
		{[]string{`"smile": 1`, "[5]"}, nil, load.OK}, // across chunks
		{nil, []string{`"errors"`}, load.Status},
		{nil, []string{`"failures"`}, load.OK},
	} {
		p := profile(url)
		p.Rate, p.Warmup, p.Tail, p.Measure, p.BodyHas, p.BodyLacks = 100, 0, 0, 200*time.Millisecond, test.has, test.lacks
		r := mustRun(t, p)
		if r.Classes[test.class] != 20 || test.class == load.Status && r.Errors["wrong body"] != 20 {
			t.Errorf("has %q, lacks %q: %v, %v", test.has, test.lacks, r.Classes, r.Errors)
		}

	}
}

// TestExpectContinue checks that a 100 Continue is skipped and the final response
// counts. The client sends the body without waiting for the 100.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	const sent = 3000
	var wrong atomic.Int64
	url := httpServer(t, func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); n != sent || err != nil || r.Header.Get("Expect") != "100-continue" {
			wrong.Add(1)
		}
		w.WriteHeader(http.StatusCreated)
	})
	p := profile(url)
	p.RequestSize, p.Headers, p.Warmup, p.Measure = sent, []string{"Expect: 100-continue"}, 0, 200*time.Millisecond
	if r := mustRun(t, p); r.Classes[load.OK] != 100 {
		t.Errorf("%v, %v, %v, %d reconnects, %d wrong", r.Classes, r.Statuses, r.Errors, r.Reconnects, wrong.Load())
	} else if d := difftest.Wrong(`r.Statuses["201"] != 100`, r.Statuses["201"] != 100, "r.Reconnects > 0", r.Reconnects > 0, "wrong.Load() > 0", wrong.Load() > 0); d != "" {
		t.Errorf("%s: %v, %v, %v, %d reconnects, %d wrong", d, r.Classes, r.Statuses, r.Errors, r.Reconnects, wrong.Load())
	}

}
