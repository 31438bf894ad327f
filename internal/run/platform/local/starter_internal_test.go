package local

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// The start of an application is bounded by requests on both sides. One answers 503 until an instant, one listens from then on, and one
// accepts connections before and answers from then on.
func TestStartIsBounded(t *testing.T) {
	for _, mode := range []string{"unavailable", "listens late", "silent"} {
		for _, ready := range []time.Duration{0, 7 * time.Millisecond, 23 * time.Millisecond, 40 * time.Millisecond, 300 * time.Millisecond} {
			t.Run(mode+" "+ready.String(), func(t *testing.T) {
				l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
				began := time.Now()
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if wait := time.Until(began.Add(ready)); wait > 0 && mode == "unavailable" {
						w.WriteHeader(http.StatusServiceUnavailable)
					} else if wait > 0 {
						time.Sleep(wait)
					}
				})}
				address := l.Addr().String()
				if mode == "listens late" {
					must.OK(t, l.Close())
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				r := send(ctx, httpGet("http://"+address, "app", nil, true), startProbeEvery)
				if mode == "listens late" {
					time.Sleep(time.Until(began.Add(ready)))
					l = must.Get(net.Listen("tcp", address))(t)
				}
				listening := time.Since(began)
				go func() { _ = server.Serve(l) }()
				defer server.Close()
				at := must.Get(r.answered(ctx))(t)
				r.end()
				least, most, latest := max(0, r.refused(at).Sub(began)), at.Sub(began), ready
				if mode == "listens late" {
					latest = listening // of the interval in which it began to listen
				}
				if most < ready || least > latest {
					t.Errorf("ready after at least %v, at most %v, want %v to %v", least, most, ready, latest)
				}
				if width := most - least; mode != "silent" && width > 20*startProbeEvery { // of a busy machine
					t.Errorf("ready after at least %v, at most %v: too wide", least, most)
				}
			})
		}
	}
}
