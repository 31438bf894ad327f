package epoll

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/load/schedule"
	"github.com/tare-mesh/tare/internal/load/target"
	"github.com/tare-mesh/tare/test/must"
)

// BenchmarkUserCode measures the engine's work per request of a closed loop: from the
// read of a response to the write of the next request, here to /dev/null.
func BenchmarkUserCode(b *testing.B) {
	sink := must.Get(os.OpenFile(os.DevNull, os.O_WRONLY, 0))(b)
	defer sink.Close()
	const nginx = "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 09:00:00 GMT\r\nContent-Type: application/octet-stream\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello"
	p := load.Profile{Targets: []string{"http://127.0.0.1:80/"}, Method: http.MethodGet, Connections: 64, Measure: time.Hour, ExpectSize: -1}.WithDefaults()
	targets := must.Get(target.Resolve(b.Context(), &p, nil, nil))(b)
	j := &job.Job{Profile: p, Targets: targets}
	j.Divide(schedule.Rotation(&p))
	j.Collector = record.NewCollector(&j.Profile, nil)
	w := must.Get(NewWorker(j, 0))(b)
	w.start(time.Now())
	w.pace.started, w.ticker.NextTick = true, load.Never
	for i := range w.places.conns {
		c := &w.places.conns[i]
		c.fd, c.state = int32(sink.Fd()), connIdle
		w.begin(c, w.now, w.now)
	}
	answer := []byte(nginx)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w.tick()
		w.exchanges.feed(&w.places.conns[i%len(w.places.conns)], answer)
	}
	for i := range w.places.conns {
		w.places.conns[i].fd = -1
	}
}
