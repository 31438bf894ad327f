package engine

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
)

// Events, lines and chunks are messages, with the times at which they come. Other answers have none.
func TestStreams(t *testing.T) {
	t.Parallel()
	const n, first, pause = 5, 20 * time.Millisecond, 5 * time.Millisecond
	handler := func(w http.ResponseWriter, r *http.Request) {
		begin, out := time.Now(), http.NewResponseController(w)
		w.Header().Set("Content-Type", r.FormValue("type"))
		_ = out.Flush()
		for i := range n {
			time.Sleep(time.Until(begin.Add(first + time.Duration(i)*pause)))
			_, _ = io.WriteString(w, r.FormValue("piece"))
			_ = out.Flush()
		}
	}
	for protocol, url := range map[string]string{load.ProtocolHTTP1: httpServer(t, handler), load.ProtocolHTTP2: h2Server(t, handler)} {
		for _, test := range []struct {
			query, stream string
			messages      int64
		}{
			{"type=text/event-stream&piece=data:x%0A%0A", "", n},
			{"type=application/x-ndjson&piece=%7B%7D%0A", "", n},
			{"type=text/plain&piece=x", load.StreamChunks, n},
			{"type=text/plain&piece=x", "", 0},
		} {
			p := profile(url + "/?" + test.query)
			p.Protocol, p.Stream, p.Rate, p.Warmup, p.Tail, p.Requests, p.Measure = protocol, test.stream, 100, 0, 0, 20, 20*time.Second
			r := mustRun(t, p)
			if d := difftest.Of("r.Classes[load.OK]", r.Classes[load.OK], 20, "r.Messages", r.Messages, 20*test.messages,
				"r.MessageGapMS.Count", r.MessageGapMS.Count, 20*max(0, test.messages-1), "r.FirstMessageMS.Count", r.FirstMessageMS.Count, min(20, 20*test.messages)); d != "" {
				t.Errorf("%s: %s %+v: %v %v", d, protocol, test, r.Classes, r.Errors)
			}
			if test.messages == 0 {
				continue
			}
			// However busy the machine: nothing comes before it is due, or after the answer.
			ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
			last := r.FirstMessageMS.Mean + (n-1)*r.MessageGapMS.Mean
			if d := difftest.Wrong("first byte late", r.TTFBMS.Mean > r.FirstMessageMS.Mean-ms(first)/4, "first message early", r.FirstMessageMS.Min < 0.99*ms(first),
				"last message early", last < 0.99*ms(first+(n-1)*pause), "last message late", last > 1.01*r.ServiceMS.Mean); d != "" {
				t.Errorf("%s: %s %+v: first byte %+v, first message %+v, gap %+v", d, protocol, test, r.TTFBMS, r.FirstMessageMS, r.MessageGapMS)
			}
		}
	}
}
