package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/engine"
)

// 50 requests of a schedule, on two connections.
func ExampleRun() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	report, err := engine.Run(context.Background(), load.Profile{Targets: []string{server.URL}, Rate: 500, Connections: 2,
		Requests: 50, Measure: time.Minute, Drain: time.Minute, ExpectSize: -1}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Requests, "requests,", report.Statuses["404"], "with status 404, on", report.Connected, "connections")
	// Output: 50 requests, 50 with status 404, on 2 connections
}
