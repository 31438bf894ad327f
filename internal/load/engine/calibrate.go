package engine

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// echoResponse is the calibration server's only response.
const echoResponse = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// calibrate runs p's load for a short time against a server in this process that
// responds immediately. It measures the floor: the response time of an empty server
// with this generator, on this machine, at this rate. The floor depends on all
// three, so each report can contain its own.
func calibrate(ctx context.Context, p load.Profile) (load.Quantiles, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return load.Quantiles{}, fmt.Errorf("calibrate: %w", err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serveEcho(c) })
		}
	})
	// Keep the fields that shape the load and drop the fields that shape the request.
	r, err := Run(ctx, load.Profile{
		Targets: []string{"http://" + l.Addr().String()}, Rate: p.Rate, Arrivals: calibrationArrivals(&p), Seed: p.Seed,
		Connections: min(p.Connections, 256), Workers: p.Workers, Timeout: p.Timeout, CPUs: p.CPUs, Spin: p.Spin,
		Warmup: p.Calibrate / 4, Measure: p.Calibrate, Drain: time.Second, ExpectSize: -1,
	}, nil)
	_ = l.Close()
	serving.Wait()
	if err != nil {
		return load.Quantiles{}, fmt.Errorf("calibrate: %w", err)
	}
	return r.ResponseMS, nil
}

// calibrationArrivals is the arrival process without its file.
func calibrationArrivals(p *load.Profile) string {
	if p.Arrivals == load.Replay {
		return load.Poisson
	}
	return p.Arrivals
}

// serveEcho responds to every request on c, without allocating, until c is closed.
func serveEcho(c net.Conn) {
	defer c.Close()
	response := []byte(echoResponse)
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(line) > len("\r\n") {
			continue
		}
		if _, err := c.Write(response); err != nil {
			return
		}
	}
}
