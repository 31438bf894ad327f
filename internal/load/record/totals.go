package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
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
	whole        load.Whole       // but its connections
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

func (t *Totals) distributions() *load.Distributions {
	d := &load.Distributions{Failed: t.failed.encode()}
	encoded := encodedIn(d)
	for i, h := range t.histograms() {
		*encoded[i], _ = (*h).EncodeV2() // writes to memory: cannot fail
	}
	return d
}

func (t *Totals) histograms() []**hdrhistogram.Histogram {
	return []**hdrhistogram.Histogram{&t.response, &t.service, &t.lateness, &t.ownDelay, &t.firstByte, &t.message, &t.connect, &t.handshake, &t.roundTrip, &t.gap}
}

// encodedIn are the places of the histograms, in their order.
func encodedIn(d *load.Distributions) []*[]byte {
	return []*[]byte{&d.Response, &d.Service, &d.Lateness, &d.Own, &d.FirstByte, &d.Message, &d.Connect, &d.Handshake, &d.RoundTrip, &d.Gap}
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
	t.whole.Sent += w.whole.Sent
	t.whole.Unanswered += w.whole.Unanswered
	t.whole.Failed += w.whole.Failed
	t.whole.Retried += w.whole.Retried
	t.processCPU += w.processCPU
	t.Spin = max(t.Spin, w.Spin)
	for _, counts := range [][2][]int64{
		{t.classes[:], w.classes[:]}, {t.statuses[:], w.statuses[:]}, {t.unsuccessful[:], w.unsuccessful[:]},
		{t.kinds[:], w.kinds[:]}, {t.lost[:], w.lost[:]}, {t.OpenKinds[:], w.OpenKinds[:]},
	} {
		for i, n := range counts[1] {
			counts[0][i] += n
		}
	}
	for i, reason := range w.reasons {
		t.reasons[i] = cmp.Or(t.reasons[i], reason)
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
}

// finishWhole counts the outcome of a request of the whole run.
func (t *Totals) finishWhole(o *Outcome) {
	if o.Sent < 0 {
		return
	}
	t.whole.Sent++
	t.whole.Retried += int64(o.Retries)
	switch {
	case o.Status == 0:
		t.whole.Unanswered++
	case isError(o.Status):
		t.whole.Failed++
	}
}

// isError reports whether a status is an error by its protocol, expected or not.
func isError(status int) bool {
	return status >= 400 && status < load.StatusGRPC || status > load.StatusGRPC && status != load.StatusEcho
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

// Merge merges the reports of all parts of one load (see [load.Profile.Parts]), which
// must have run at the same time. Counts are added and distributions merged bucket
// by bucket. The verdict judges the whole and every part.
func Merge(reports []load.Report) (load.Report, error) {
	if len(reports) == 0 {
		return load.Report{}, errors.New("merge load reports: there are none")
	}
	sum := newTotals()
	m := reports[0]
	m.Verdict, m.Warnings, m.Parts, m.Generator = "ok", []string{}, nil, load.Generator{OK: true}
	first, last, gapDistance := m.Started, m.Started, 0.0
	for i := range reports {
		r := &reports[i]
		t, err := totalsOf(r)
		if err != nil {
			return load.Report{}, fmt.Errorf("merge load report %d: %w", i, err)
		}
		sum.add(&t)
		if r.Started.Before(first) {
			first = r.Started
		}
		if r.Started.After(last) {
			last = r.Started
		}
		if ends := m.MeasureEnd.Compare(r.MeasureEnd); m.AskedRequests > 0 && ends < 0 || m.AskedRequests == 0 && ends > 0 {
			m.MeasureEnd = r.MeasureEnd
		}
		m.ThreadCPURatio = max(m.ThreadCPURatio, r.ThreadCPURatio)
		gapDistance = max(gapDistance, r.GapDistance)
		if r.Verdict != "ok" {
			m.Warn("part %d: %s", i, r.Verdict)
		}
	}
	fill(&m, &sum)
	var err error
	if m.Routes, err = mergeRoutes(reports); err != nil {
		return load.Report{}, fmt.Errorf("merge load reports: %w", err)
	}
	m.Slices = mergeSlices(reports)
	m.GapDistance = gapDistance // unknown for a merged schedule: the worst part's
	if window := m.MeasureEnd.Sub(m.MeasureStart).Seconds(); window > 0 {
		m.Rate = float64(sum.completed) / cmp.Or(m.LoadedSeconds, window)
	}
	judge(&m, &sum, false)
	judgeClocks(&m, reports)
	if skew := last.Sub(first); skew > time.Millisecond {
		m.Limit("the parts started %v apart", skew.Round(time.Microsecond))
	}
	return m, nil
}

// totalsOf converts a report back to totals.
func totalsOf(r *load.Report) (Totals, error) {
	t := newTotals()
	if r.Parts == nil {
		return t, errors.New("the report has no distributions: it was not made as one of several parts")
	}
	errs, encoded := []error{t.failed.decode(r.Parts.Failed)}, encodedIn(r.Parts)
	for i, h := range t.histograms() {
		if len(*encoded[i]) > 0 { // else of an earlier version
			var err error
			*h, err = hdrhistogram.Decode(*encoded[i])
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return t, fmt.Errorf("decode distribution: %w", err)
	}
	for _, c := range t.counters(r) {
		*c[0] = *c[1]
	}
	if w := r.Whole; w != nil {
		t.whole = *w
	}
	t.processCPU = time.Duration(r.CPUSeconds * 1e9)
	t.Spin = time.Duration(r.SpinUS * 1e3)
	for i, name := range classNames {
		t.classes[i] = r.Classes[name]
	}
	t.TLS = r.TLS
	for k := range load.FailureCount {
		t.kinds[k], t.lost[k] = r.Errors[k.String()], r.Lost[k.String()]
		t.OpenKinds[k], t.reasons[k] = r.ConnectErrors[k.String()], r.Reasons[k.String()]
	}
	t.unsuccessful, t.details = unsuccessfulOf(r.Result.Failures)
	for text, n := range r.Addresses {
		if addr, err := netip.ParseAddrPort(text); err == nil {
			t.addresses[addr] = n
		}
	}
	for code, n := range r.Statuses {
		if c := load.StatusOf(code); c > 0 {
			t.statuses[c] = n
		}
	}
	return t, nil
}

// MergeLogs merges the interval logs of all parts into w. It adds the counts of
// lines of the same interval and tag. start is the start of the load.
func MergeLogs(w io.Writer, start time.Time, logs ...io.Reader) error {
	all := map[time.Duration]*logInterval{}
	for i, log := range logs {
		err := hdrlog.ReadIntervals(log, func(from, to time.Duration, tag string, h *hdrhistogram.PackedHistogram) error {
			if all[from] == nil {
				all[from] = &logInterval{to: to}
			}
			place := all[from].tagged(tag)
			if place == nil {
				return fmt.Errorf("unknown tag %q", tag)
			}
			if *place == nil {
				*place = h
				return nil
			}
			return hdrlog.Add(*place, h)
		})
		if err != nil {
			return fmt.Errorf("merge interval log %d: %w", i, err)
		}
	}
	return writeLog(w, start, all)
}

// tagged returns the histogram of a tag, or nil for an unknown tag.
func (l *logInterval) tagged(tag string) **hdrhistogram.PackedHistogram {
	places := map[string]**hdrhistogram.PackedHistogram{load.TagLateness: &l.lateness, load.TagRetried: &l.retried}
	for c, name := range classNames {
		places[load.TagResponse+string(name)], places[load.TagService+string(name)] = &l.response[c], &l.service[c]
	}
	return places[tag]
}

type routeTotal struct {
	n, sum   int64                   // 2xx, and their service times, ns
	failed   int64                   // all others
	response *hdrhistogram.Histogram // 2xx, nil until the first
}

func (t *routeTotal) finish(o *Outcome, class classIndex, response int64) {
	if class != classOK {
		t.failed++
		return
	}
	t.n++
	t.sum += o.End - o.Sent
	if t.response == nil {
		t.response = newLive() // coarser: there may be many routes
	}
	put(t.response, response)
}

func (t *routeTotal) add(w *routeTotal) {
	t.n += w.n
	t.sum += w.sum
	t.failed += w.failed
	if w.response == nil {
		return
	}
	if t.response == nil {
		t.response = newLive()
	}
	t.response.Merge(w.response)
}

// addRoutes adds b to a, which has as many routes or none yet.
func addRoutes(a, b []routeTotal) []routeTotal {
	if len(a) < len(b) {
		a = append(a, make([]routeTotal, len(b)-len(a))...)
	}
	for i := range b {
		a[i].add(&b[i])
	}
	return a
}

// routesOf are the totals of routes by path, in the order of paths.
func routesOf(paths []string, totals []routeTotal) map[string]*routeTotal {
	named := map[string]*routeTotal{}
	for i, path := range paths {
		if named[path] = (&routeTotal{}); i < len(totals) {
			named[path] = &totals[i]
		}
	}
	return named
}

func routeTimes(totals map[string]*routeTotal) (named map[string]load.RouteTimes) {
	for path, t := range totals {
		set(&named, path, t.times())
	}
	return named
}

// encodeRoutes encodes the response times of routes for a merge.
func encodeRoutes(totals map[string]*routeTotal) (named map[string][]byte) {
	for path, t := range totals {
		if t.response != nil {
			encoded, _ := t.response.EncodeV2() // writes to memory: cannot fail
			set(&named, path, encoded)
		}
	}
	return named
}

// set sets the value of a key in a map that is nil until the first.
func set[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}

// mergeRoutes adds up the routes of several reports.
func mergeRoutes(reports []load.Report) (map[string]load.RouteTimes, error) {
	sums := map[string]*routeTotal{}
	for i := range reports {
		for path, r := range reports[i].Routes {
			part := routeTotal{n: r.Requests, sum: int64(r.MeanMS * 1e6 * float64(r.Requests)), failed: r.Failed}
			if reports[i].Parts != nil && reports[i].Parts.Routes[path] != nil {
				var err error
				if part.response, err = hdrhistogram.Decode(reports[i].Parts.Routes[path]); err != nil {
					return nil, err
				}
			}
			if sums[path] == nil {
				sums[path] = &routeTotal{}
			}
			sums[path].add(&part)
		}
	}
	return routeTimes(sums), nil
}

func (t *routeTotal) times() load.RouteTimes {
	r := load.RouteTimes{Requests: t.n, Failed: t.failed}
	if t.n > 0 {
		r.MeanMS = float64(t.sum) / float64(t.n) / 1e6
	}
	if t.response != nil {
		r.ResponseMS = quantiles(t.response, 1e6)
	}
	return r
}
