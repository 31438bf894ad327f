package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tare-mesh/tare/internal/load"
)

// grpcPath is the call that is made: the health check, which every grpc-go server can answer.
const grpcPath = "/grpc.health.v1.Health/Check"

// serveGRPC answers health checks until it is killed, and counts them. It prints
// the port of its counter and the port of its calls.
func serveGRPC() error {
	calls, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	orders, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var n atomic.Int64
	s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		n.Add(1)
		return h(ctx, req)
	}))
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go func() {
		_ = http.Serve(orders, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, n.Load()) }))
	}()
	fmt.Fprintln(os.Stdout, orders.Addr().(*net.TCPAddr).Port, calls.Addr().(*net.TCPAddr).Port)
	return s.Serve(calls)
}

// grpcClient is the client to compare with: grpc-go as its users write it, 64
// calls under way on four connections, until it is stopped.
func grpcClient(url string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), grpcPath)
	var callers sync.WaitGroup
	for range h2Connections {
		conn, err := grpc.NewClient(host, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer conn.Close()
		for range h2Streams {
			callers.Go(func() {
				client := grpc_health_v1.NewHealthClient(conn)
				for ctx.Err() == nil {
					if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil && ctx.Err() == nil {
						fmt.Fprintln(os.Stderr, "benchload:", err)
						return
					}
				}
			})
		}
	}
	callers.Wait()
	return nil
}

// streams makes a profile one of many streams on a few connections.
func streams(protocol string) func(*load.Profile) {
	return func(p *load.Profile) {
		p.Protocol, p.Connections = protocol, h2Connections
	}
}
