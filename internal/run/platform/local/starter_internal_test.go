package local

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
)

// An application that listens at once answers 503 before it is ready. Its start is bounded by requests on both sides.
func TestStartIsBounded(t *testing.T) {
	const ready = 60 * time.Millisecond
	began := time.Now()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if time.Since(began) < ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r := send(ctx, httpGet("http://"+l.Addr().String(), "app", nil, true), startProbeEvery)
	at := must.Get(r.answered(ctx))(t)
	r.end()
	if least := r.refused(at).Sub(began); at.Sub(began) < ready || least > ready || least <= 0 {
		t.Errorf("ready after at least %v, at most %v, want %v", least, at.Sub(began), ready)
	}
}
