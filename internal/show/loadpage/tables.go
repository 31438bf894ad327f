package loadpage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/load"
)

// column is one figure of a distribution.
type column struct {
	name string
	of   func(load.Quantiles) float64
	min  int // width of pages that have it
}

var columns = []column{
	{"mean", func(q load.Quantiles) float64 { return q.Mean }, 80},
	{"p50", func(q load.Quantiles) float64 { return q.P50 }, 0},
	{"p75", func(q load.Quantiles) float64 { return q.P75 }, 0},
	{"p90", func(q load.Quantiles) float64 { return q.P90 }, 70},
	{"p95", func(q load.Quantiles) float64 { return q.P95 }, 0},
	{"p99", func(q load.Quantiles) float64 { return q.P99 }, 0},
	{"p99.9", func(q load.Quantiles) float64 { return q.P999 }, 80},
	{"max", func(q load.Quantiles) float64 { return q.Max }, 0},
}

const (
	labelWidth = 16 // of a row's name
	cellWidth  = 8
	aboutAt    = labelWidth + 8*cellWidth // column of a row's explanation
	aboutFrom  = 110                      // width of pages with explanations
)

// row is one distribution with its name.
type row struct {
	name, about string
	q           load.Quantiles
}

// percentiles prints the percentiles of the response time, or of the service time of a closed loop.
func (t *page) percentiles(r *load.Report) {
	if r.ResponseMS.Count == 0 {
		return
	}
	rows := []row{{"response", "", r.ResponseMS}}
	about := "ms, successful requests, from the intended start"
	if r.Loop == "closed" {
		rows, about = []row{{"service", "", r.ServiceMS}}, "ms, successful requests, from the send"
	}
	t.heading("Times", about)
	t.table(rows)
}

// failures are the failed requests by cause, and their times by class.
func (t *page) failures(p *load.Profile, r *load.Report) {
	if len(r.Lost) > 0 {
		t.heading("Lost", "without an answer before or after the measure window: not in any figure above")
		for _, name := range printable.MostFirst(r.Lost) {
			t.cause(load.Cause{Cause: name, Count: r.Lost[name], Detail: r.Reasons[name]}, sum(r.Lost))
		}
	}
	if len(r.Result.Failures) == 0 {
		return
	}
	t.heading("Failures", fmt.Sprintf("%d of %s", r.Result.Failed(), printable.Counted(int(r.Requests), "request")))
	for _, c := range r.Result.Failures {
		t.cause(c, r.Requests)
	}
	if len(r.FailedMS) == 0 {
		return
	}
	t.heading("Times of failures", "ms, from the intended start")
	rows := lists.Map(slices.Sorted(maps.Keys(r.FailedMS)), func(name string) row { return row{failureName(p, name), "", r.FailedMS[name]} })
	t.table(rows)
}

// cause is one cause of failures, with its share of all.
func (t *page) cause(c load.Cause, all int64) {
	const indent = 22
	count := fmt.Sprintf("%10d %8s  ", c.Count, percentText(float64(c.Count)/float64(max(1, all))))
	t.fold(count+t.paint.bad(c.Cause)+strings.TrimPrefix(c.String(), c.Cause), strings.Repeat(" ", indent))
}

// failureName is a class of failures for people.
func failureName(p *load.Profile, class string) string {
	switch {
	case class == "2xx" && len(p.ExpectStatus) == 0:
		return "2xx, refused"
	case class == string(load.Timeout):
		return "timeout"
	case class == string(load.Conn):
		return "connection"
	}
	return class
}

// routes are the figures by path, the most frequent first.
func (t *page) routes(r *load.Report) {
	if len(r.Routes) == 0 {
		return
	}
	const pathAt = 44
	t.heading("URLs", "response times of successful requests in ms")
	t.line("%s", t.paint.faint(fmt.Sprintf("%10s %8s %7s %7s %7s  URL", "requests", "failed", "p50", "p95", "p99")))
	for _, path := range slices.SortedFunc(maps.Keys(r.Routes), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Routes[b].Requests+r.Routes[b].Failed, r.Routes[a].Requests+r.Routes[a].Failed), cmp.Compare(a, b))
	}) {
		route := r.Routes[path]
		time := func(ms float64) string {
			if route.ResponseMS.Count == 0 {
				return "-"
			}
			return figure(ms)
		}
		failed := fmt.Sprintf("%8d", route.Failed)
		if route.Failed > 0 {
			failed = t.paint.bad(failed)
		}
		t.line("%10d %s %7s %7s %7s  %s", route.Requests+route.Failed, failed, time(route.ResponseMS.P50), time(route.ResponseMS.P95), time(route.ResponseMS.P99),
			t.cut(path, t.width-pathAt-2))
	}
}

// phases are the parts of the times, and what the generator adds.
func (t *page) phases(r *load.Report) {
	rows := []row{
		{"connect", "connections of the whole run", r.ConnectMS},
		{"TLS", "handshakes of the whole run", r.TLSMS},
		{"first byte", "from the send", r.TTFBMS},
		{"first message", "from the send", r.FirstMessageMS},
		{"message gap", "between messages of an answer", r.MessageGapMS},
		{"round trip", "message on a stream to its answer", r.RoundTripMS},
	}
	if r.Loop == "open" {
		rows = append(rows, row{"service", "from the send", r.ServiceMS},
			row{"lateness", "send after the intended start", inMS(r.LatenessUS)})
		if r.OwnLatenessUS != r.LatenessUS {
			rows = append(rows, row{"own lateness", "part that the generator causes", inMS(r.OwnLatenessUS)})
		}
	}
	if !slices.ContainsFunc(rows, func(r row) bool { return r.q.Count > 0 }) {
		return
	}
	t.heading("Phases", "ms")
	t.table(rows)
}

// table prints distributions, and leaves out empty ones.
func (t *page) table(rows []row) {
	var b strings.Builder
	fmt.Fprintf(&b, "%*s", labelWidth, "")
	for _, c := range columns {
		if t.width >= c.min {
			fmt.Fprintf(&b, "%*s", cellWidth, c.name)
		}
	}
	t.line("%s", t.paint.faint(b.String()))
	for _, r := range rows {
		if r.q.Count == 0 {
			continue
		}
		fmt.Fprintf(t, "  %-*s", labelWidth-2, r.name)
		for _, c := range columns {
			if t.width >= c.min {
				fmt.Fprintf(t, "%*s", cellWidth, figure(c.of(r.q)))
			}
		}
		if t.width >= aboutFrom {
			t.WriteString(t.paint.faint(t.cut("   "+r.about, t.width-aboutAt)))
		}
		t.WriteByte('\n')
	}
}

// inMS converts µs.
func inMS(q load.Quantiles) load.Quantiles {
	for _, v := range []*float64{&q.Mean, &q.Min, &q.P10, &q.P25, &q.P50, &q.P75, &q.P90, &q.P95, &q.P99, &q.P999, &q.P9999, &q.Max} {
		*v /= 1e3
	}
	return q
}

// account is the traffic of the connections.
func (t *page) account(p *load.Profile, r *load.Report) {
	t.heading("Connections", "")
	item := func(name, text string) {
		t.fold(fmt.Sprintf("  %-*s%s", labelWidth-2, name, text), strings.Repeat(" ", labelWidth))
	}
	if len(r.Statuses) > 0 {
		item("statuses", counts(r.Statuses, r.Requests))
	}
	item("traffic", bytesText(r.BytesIn)+" received, "+bytesText(r.BytesOut)+" sent")
	if p.ConnectionRate > 0 {
		item("new", fmt.Sprintf("%s/s, %s/s asked for", figure(float64(r.Opened)/r.MeasureEnd.Sub(r.MeasureStart).Seconds()), figure(p.ConnectionRate)))
	} else if r.Reconnects > 0 {
		item("reconnects", fmt.Sprint(r.Reconnects))
	}
	if r.GoAways > 0 {
		item("goaway", load.Cause{Cause: printable.Counted(int(r.GoAways), "connection") + ", by the server", Detail: r.Reasons[load.FailureGoAway.String()]}.String())
	}
	if r.IdleClosed > 0 {
		item("closed idle", printable.Counted(int(r.IdleClosed), "connection")+", by the server")
	}
	if r.Retried > 0 {
		item("retried", counts(map[string]int64{"requests": r.Retried}, r.Requests))
	}
	if len(r.Addresses) > 1 {
		item("addresses", counts(r.Addresses, sum(r.Addresses)))
	}
	if r.TLSResumed > 0 {
		item("handshakes", fmt.Sprintf("%d, of them %d resumed a session", r.TLSMS.Count, r.TLSResumed))
	}
	if p.GRPCStream || r.MessageGapMS.Count > 0 {
		item("messages", fmt.Sprintf("%d, %s a call", r.Messages, figure(float64(r.Messages)/float64(max(1, r.Requests)))))
	}
}
