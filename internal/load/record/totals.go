package record

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/load"
)

// Totals counts the requests intended in the measure window, unless stated otherwise.
type Totals struct {
	Intended, sent     int64
	completed          int64    // answers whose last byte came in the window
	backlog            [2]int64 // requests due before the start and the end of the window, and not ended by then
	BytesIn, BytesOut  int64    // in the window
	classes            [classCount]int64
	statuses           [load.StatusCount]int64
	kinds              [load.FailureCount]int64
	lost               [load.FailureCount]int64  // requests of the rest of the run that had no answer
	unsuccessful       [load.StatusCount]int64   // statuses that do not mean success
	details            map[int]string            // text of the first answer of a grpc-status, of the whole run
	failed             failedTimes               // response times
	reasons            [load.FailureCount]string // first error of each kind, of the whole run
	response, service  *hdrhistogram.Histogram   // 2xx
	lateness, ownDelay *hdrhistogram.Histogram   // every class
	firstByte          *hdrhistogram.Histogram   // 2xx, from the actual send
	message            *hdrhistogram.Histogram   // 2xx with messages, from the actual send to the first
	gap                *hdrhistogram.Histogram   // between two messages of an answer
	roundTrip          *hdrhistogram.Histogram   // of a message on a stream and its answer
	connect, handshake *hdrhistogram.Histogram   // of the whole run, prewarm included
	addresses          map[netip.AddrPort]int64  // connections opened, of the whole run
	messages           int64
	retried            int64 // requests that were retried
	Gaps               Gaps
	answers
	slices       sliceCounts              // in the window
	routes       []routeTotal             // by the profile's paths, empty where there is one
	resumed      int64                    // handshakes that resumed a session, of the whole run
	TLS          string                   // version and cipher suite of the first connection
	Open         int64                    // at t0
	OpenKinds    [load.FailureCount]int64 // of connects that failed, of the whole run
	QueueMax     int64
	Reconnects   int64 // after t0
	opened       int64 // connections, in the window
	IdleClosed   int64
	whole        runCounts
	ExtraBytes   int64            // connections on which bytes came after a response, none being awaited
	LateRests    int64            // times that a rest of a body was sent without more window, of the whole run
	GoAways      int64            // connections that the server ended by GOAWAY, of the whole run
	ClosedUnused int64            // connections that the server closed before any answer, of the whole run
	Held         int64            // connections open at the end of the window
	Unfinished   int64            // given up at the end of the drain, of the whole run
	ThreadCPU    time.Duration    // of the worker in the window
	Polled       time.Duration    // of the window, in polls that found nothing
	processCPU   time.Duration    // of the process in the window
	process      [2]time.Duration // CPU of the process at the beginning and the end of the worker's window
	wall         time.Duration    // between the worker's readings of its CPU at the edges of the window
	covered      time.Duration    // of the window, until it was over or Stop was called
	Spin         time.Duration    // in use at the end
}

// distributions encodes t's histograms.
func (t *Totals) distributions() *load.Distributions {
	d := &load.Distributions{}
	_ = t.each(d, func(h **hdrhistogram.Histogram, encoded *[]byte) (err error) {
		*encoded, err = (*h).EncodeV2() // writes to memory: cannot fail
		return err
	})
	d.Failed = t.failed.encode()
	return d
}

// each pairs every histogram of t with its place in d.
func (t *Totals) each(d *load.Distributions, do func(h **hdrhistogram.Histogram, encoded *[]byte) error) error {
	encoded := []*[]byte{&d.Response, &d.Service, &d.Lateness, &d.Own, &d.FirstByte, &d.Message, &d.Connect, &d.Handshake, &d.RoundTrip, &d.Gap}
	for i, h := range t.histograms() {
		if err := do(h, encoded[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *Totals) histograms() []**hdrhistogram.Histogram {
	return []**hdrhistogram.Histogram{&t.response, &t.service, &t.lateness, &t.ownDelay, &t.firstByte, &t.message, &t.connect, &t.handshake, &t.roundTrip, &t.gap}
}

// counters are the counts that a report has too, each with its place there. Those of several workers or parts are added:
// QueueMax is then an upper bound, since the maxima need not coincide.
func (t *Totals) counters(r *load.Report) [][2]*int64 {
	return [][2]*int64{
		{&t.Intended, &r.Intended}, {&t.sent, &r.Sent}, {&t.completed, &r.Completed}, {&t.retried, &r.Retried}, {&t.messages, &r.Messages},
		{&t.backlog[0], &r.BacklogStart}, {&t.backlog[1], &r.BacklogEnd}, {&t.BytesIn, &r.BytesIn}, {&t.BytesOut, &r.BytesOut},
		{&t.QueueMax, &r.QueueMax}, {&t.Reconnects, &r.Reconnects}, {&t.opened, &r.Opened}, {&t.IdleClosed, &r.IdleClosed}, {&t.LateRests, &r.LateRests},
		{&t.ExtraBytes, &r.ExtraBytes}, {&t.GoAways, &r.GoAways}, {&t.ClosedUnused, &r.ClosedUnused}, {&t.Held, &r.Held}, {&t.Open, &r.Connected}, {&t.resumed, &r.TLSResumed},
	}
}

func newTotals() Totals {
	t := Totals{addresses: map[netip.AddrPort]int64{}, details: map[int]string{}, Gaps: newGaps()}
	for _, h := range t.histograms() {
		*h = newHistogram()
	}
	return t
}

func (t *Totals) add(w *Totals) {
	var unused load.Report
	from := w.counters(&unused)
	for i, c := range t.counters(&unused) {
		*c[0] += *from[i][0]
	}
	t.Unfinished += w.Unfinished
	t.whole.add(w.whole)
	t.processCPU += w.processCPU
	t.Spin = max(t.Spin, w.Spin)
	for i, n := range w.classes {
		t.classes[i] += n
	}
	for i, n := range w.statuses {
		t.statuses[i] += n
	}
	for i, n := range w.kinds {
		t.kinds[i] += n
		t.reasons[i] = cmp.Or(t.reasons[i], w.reasons[i])
		t.lost[i] += w.lost[i]
	}
	for i, n := range w.unsuccessful {
		t.unsuccessful[i] += n
	}
	t.failed.add(&w.failed)
	ours, theirs := append(t.histograms(), &t.Gaps.sent, &t.Gaps.intended), append(w.histograms(), &w.Gaps.sent, &w.Gaps.intended)
	for i, h := range theirs {
		if (*h).TotalCount() > 0 {
			(*ours[i]).Merge(*h)
		}
	}
	for status, text := range w.details {
		t.details[status] = cmp.Or(t.details[status], text)
	}
	for addr, n := range w.addresses {
		t.addresses[addr] += n
	}
	t.routes = addRoutes(t.routes, w.routes)
	t.slices.add(&w.slices)
	t.TLS = cmp.Or(t.TLS, w.TLS)
	for i, n := range w.OpenKinds {
		t.OpenKinds[i] += n
	}
}

// runCounts counts the requests of the whole run.
type runCounts struct{ sent, unanswered, failed, retried int64 }

func (w *runCounts) finish(o *Outcome) {
	if o.Sent < 0 {
		return
	}
	w.sent++
	w.retried += int64(o.Retries)
	switch {
	case o.Status == 0:
		w.unanswered++
	case isError(o.Status):
		w.failed++
	}
}

// isError reports whether a status is an error by its protocol, expected or not.
func isError(status int) bool {
	return status >= 400 && status < load.StatusGRPC || status > load.StatusGRPC && status != load.StatusEcho
}

func (w *runCounts) add(o runCounts) {
	w.sent += o.sent
	w.unanswered += o.unanswered
	w.failed += o.failed
	w.retried += o.retried
}

// sliceCounts counts requests by slice, and its zero value is of a load without slices and
// counts nothing.
type sliceCounts struct {
	table  *load.Slices
	counts []load.SliceCount // by slice of the table
}

// due counts a request intended at an instant.
func (c *sliceCounts) due(intended int64) {
	if c.table != nil {
		c.counts[c.table.Index(intended)].Intended++
	}
}

// finish counts the outcome of a request.
func (c *sliceCounts) finish(o *Outcome, ok bool) {
	if c.table == nil {
		return
	}
	i := c.table.Index(o.Intended)
	n := &c.counts[i]
	if o.Sent >= 0 {
		n.LastEnd = max(n.LastEnd, o.End)
	}
	if o.Status != 0 {
		n.Answered++
	}
	if ok {
		n.OK++
		n.ResponseNS += o.End - o.Intended
	}
	if o.End >= int64(c.table.Edge(i+2)) {
		n.Overrun++
	}
}

// add adds the counts of another worker of the same load.
func (c *sliceCounts) add(w *sliceCounts) {
	if c.table == nil {
		*c = newSliceCounts(w.table)
	}
	for i := range w.counts {
		c.counts[i].Add(&w.counts[i])
	}
}

func newSliceCounts(table *load.Slices) (c sliceCounts) {
	if table == nil {
		return c
	}
	c.table, c.counts = table, make([]load.SliceCount, len(table.Owners))
	for i := range c.counts {
		c.counts[i].Slice = i
	}
	return c
}

// own returns the counts of the load's slices in the measure window.
func (c *sliceCounts) own(p *load.Profile) (own []load.SliceCount) {
	if c.table == nil {
		return nil
	}
	for i := int(p.Warmup / c.table.Length); i < int((p.Warmup+p.Measure)/c.table.Length); i++ {
		if c.table.Owners[i] == c.table.Own {
			own = append(own, c.counts[i])
		}
	}
	return own
}

// mergeSlices adds the counts of parts of one load, which have the same slices.
func mergeSlices(reports []load.Report) []load.SliceCount {
	if reports[0].Slices == nil {
		return nil
	}
	sum := slices.Clone(reports[0].Slices)
	for _, r := range reports[1:] {
		for i := range min(len(sum), len(r.Slices)) {
			sum[i].Add(&r.Slices[i])
		}
	}
	return sum
}
