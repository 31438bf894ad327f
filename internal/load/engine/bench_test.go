package engine

import (
	"testing"
	"time"
)

// BenchmarkClosedLoop is a whole run at the maximum, 64 connections, against a
// server in the same process. The CPU figure is both sides'.
func BenchmarkClosedLoop(b *testing.B) {
	p := profile(rawServer(b, replying(helloResponse)))
	p.Rate, p.Connections, p.Warmup, p.Tail = 0, 64, 100*time.Millisecond, 0
	p.Measure = time.Second
	var requests, cpu float64
	for b.Loop() {
		r := mustRun(b, p)
		requests += float64(r.Completed)
		cpu += r.ThreadCPURatio * p.Measure.Seconds()
	}
	b.ReportMetric(requests/float64(b.N), "requests/s")
	b.ReportMetric(1e6*cpu/requests, "worker-µs/request")
	b.ReportMetric(0, "ns/op")
}
