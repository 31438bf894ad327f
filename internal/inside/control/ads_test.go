package control_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/inside/control"
	"github.com/tare-mesh/tare/internal/inside/simulated"
	"github.com/tare-mesh/tare/test/must"
)

// The control plane reaches every stream of simulated proxies, not before its delay.
func TestStreamsGetEveryChange(t *testing.T) {
	const count, services, delay = 200, 50, 30 * time.Millisecond
	served := must.Get(control.New(token, t.TempDir(), control.Options{Delay: delay}))(t)
	l, streams, reports := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t), must.Get(net.Listen("tcp", "127.0.0.1:0"))(t), must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = served.Serve(t.Context(), l) }()
	go func() { _ = served.ServeADS(t.Context(), streams) }()
	p := plane{url: "http://" + l.Addr().String()}
	p.put(t, "/background", strconv.Itoa(services))
	proxies := must.Get(simulated.New(token, simulated.Options{Count: count, Control: streams.Addr().String()}))(t)
	go func() { _ = proxies.Serve(t.Context(), reports) }()
	get := func(ctx context.Context, path string, into any) error {
		over := &http.Transport{}
		defer over.CloseIdleConnections()
		return httpserver.Call(ctx, over, token, http.MethodGet, "http://"+reports.Addr().String()+path, nil, 1<<20, into)
	}
	var r simulated.Report
	must.OK(t, wait.Within(t.Context(), time.Minute, 10*time.Millisecond, func(ctx context.Context) error {
		if err := get(ctx, "/proxies", &r); err != nil || r.Synced < count {
			return fmt.Errorf("%+v, %v", r, err)
		}
		return nil
	}))
	if r.Clusters != services {
		t.Errorf("%d clusters, want %d", r.Clusters, services)
	}
	for change := 1; change <= 3; change++ {
		sent := time.Since(time.Unix(0, r.BeganNS))
		p.put(t, "/background/change", strconv.Itoa(change))
		at := make([]int64, count) // µs, 0 for not yet
		must.OK(t, wait.Within(t.Context(), time.Minute, 10*time.Millisecond, func(ctx context.Context) error {
			var all []simulated.Arrival
			err := get(ctx, "/arrivals", &all)
			for _, a := range all {
				for i, us := range a.AtUS {
					at[i] = max(at[i], us)
				}
			}
			if err != nil || slices.Min(at) == 0 {
				return fmt.Errorf("change %d has not reached every proxy: %v", change, err)
			}
			return nil
		}))
		if first := time.Duration(slices.Min(at))*time.Microsecond - sent; first < delay {
			t.Errorf("change %d reached a proxy after %v, want after %v", change, first, delay)
		}
	}
}
