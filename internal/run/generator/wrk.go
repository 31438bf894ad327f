package generator

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// wrkTraits describes github.com/wg/wrk: a closed loop, for capacity tests.
var wrkTraits = traits{name: "wrk", closed: true, protocols: []string{"http1"}, step: time.Second, whole: true, debian: "wrk",
	version: versionOf{"--version", `wrk (?:debian/)?([0-9][^\s]*)`}, command: wrkCommand, parse: ignoringProfile(ParseWrk)}

// wrk2Traits describes github.com/giltene/wrk2: a constant rate on every connection. Its build names the program wrk, but tare
// expects the name wrk2.
var wrk2Traits = traits{name: "wrk2", loop: loopOpen, protocols: []string{"http1"}, step: time.Second, whole: true,
	calibration: 10 * time.Second, warmup: 10 * time.Second, unpackaged: true,
	version: versionOf{"--version", `wrk ([0-9][^\s]*)`}, command: wrk2Command, parse: ignoringProfile(ParseWrk2)}

func wrkCommand(t traits, p load.Profile) (proc.Command, error) {
	return proc.Command{Args: append(wrkArgs(t, p), "--latency", p.Targets[0])}, nil
}

// wrk2Command extends the warm-up to the ten seconds that wrk2's figures omit, and enables both of its latencies.
func wrk2Command(t traits, p load.Profile) (proc.Command, error) {
	if p.Rate != float64(int64(p.Rate)) || p.Rate < float64(max(1, p.Workers)) {
		return proc.Command{}, refused(t.name, "its rate is whole requests per second, at least one a thread, not %v", p.Rate)
	}
	return proc.Command{Args: append(wrkArgs(t, p), "-R", decimal(p.Rate), "-U", "-L", p.Targets[0])}, nil
}

// wrkArgs returns the common arguments of wrk and wrk2. Both accept whole seconds only.
func wrkArgs(t traits, p load.Profile) []string {
	args := []string{"-t", threads(p), "-c", strconv.Itoa(p.Connections), "-d", strconv.FormatInt(wholeSeconds(t.duration(p)), 10) + "s"}
	if p.Timeout > 0 {
		args = append(args, "--timeout", strconv.FormatInt(wholeSeconds(p.Timeout), 10)+"s")
	}
	if h := host(p); h != "" {
		args = append(args, "-H", "Host: "+h)
	}
	return args
}

// ParseWrk reads the text of wrk, which counts 3xx responses as successful.
func ParseWrk(r io.Reader) (Outcome, error) {
	w := wrkReader{o: Outcome{Generator: "wrk"}, stats: ofService}
	return w.read(r)
}

// ParseWrk2 reads the text of wrk2 -L, with or without -U.
func ParseWrk2(r io.Reader) (Outcome, error) {
	w := wrkReader{o: Outcome{Generator: "wrk2"}, stats: ofResponse}
	return w.read(r)
}

// wrkReader reads the text of wrk and of its fork wrk2.
type wrkReader struct {
	o        Outcome
	stats    string // subject of the thread statistics
	current  *distribution
	spectrum bool
	last     int64 // requests up to the previous value of the spectrum
	lastMS   float64
	of       string // the program, as far as the text shows it
	summed   bool   // the closing "N requests in …" was seen
	requests int64
	failed   int64 // counted by wrk as requests, with an error status
}

func (w *wrkReader) read(r io.Reader) (Outcome, error) {
	if err := eachLine(r, w.o.Generator, w.line); err != nil {
		return w.o, err
	}
	w.end()
	if !w.summed {
		return w.o, fmt.Errorf("read output of %s: it has no line with the number of requests", w.o.Generator)
	}
	if w.of != "" && w.of != w.o.Generator { // their latencies have another meaning
		return w.o, fmt.Errorf("read output of %s: this is the output of %s", w.o.Generator, w.of)
	}
	w.o.Latencies = join(w.o.Latencies)
	if w.o.Generator == "wrk" {
		w.slow()
	}
	answered := w.requests - w.o.Slow
	w.o.NotOK = new(min(w.failed, answered)) // slow ones may have failed too
	w.o.OK = new(answered - *w.o.NotOK)
	w.o.Requests = new(answered + sum(w.o.Errors))
	for i := range w.o.Latencies {
		l := &w.o.Latencies[i]
		l.Source, l.Meaning = w.o.Generator, Meaning(w.o.Generator, l.Of)
	}
	return w.o, nil
}

// line dispatches on the beginning of a line and ignores unknown lines.
func (w *wrkReader) line(text string) error {
	t := strings.TrimSpace(text)
	word, rest, _ := strings.Cut(t, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case strings.HasPrefix(t, "Latency Distribution"):
		w.of = "wrk"
		if strings.Contains(t, "HdrHistogram") {
			w.of = "wrk2"
		}
		w.begin(t)
	case strings.HasPrefix(t, "Thread calibration:"):
		w.of = "wrk2"
	case strings.HasPrefix(t, "Value") && strings.Contains(t, "TotalCount"):
		w.spectrum = w.current != nil
	case strings.HasPrefix(t, "#["):
		w.closing(t)
	case strings.HasPrefix(t, "---"):
		w.end()
	case word == "Latency" && w.current == nil && !w.summed:
		w.threadStats(rest)
	case strings.HasSuffix(word, "%") && w.current != nil:
		w.percentile(strings.TrimSuffix(word, "%"), rest)
	case w.spectrum:
		w.spectrumRow(t)
	default:
		return w.summary(t, word, rest)
	}
	return nil
}

func (w *wrkReader) begin(title string) {
	w.end()
	of := ofService
	if strings.Contains(title, "Recorded Latency") {
		of = ofResponse
	}
	w.current = latencyOf(of)
}

// threadStats reads the line "Latency  Avg Stdev Max +/- Stdev". Its mean and
// maximum apply if the text has no closing line of a spectrum.
func (w *wrkReader) threadStats(rest string) {
	f := strings.Fields(rest)
	if len(f) < 3 {
		return
	}
	d := latencyOf(w.stats)
	if v, ok := textSeconds(f[0]); ok {
		d.mean(v)
	} else {
		w.o.note("the output holds no latency: " + f[0])
	}
	if v, ok := textSeconds(f[2]); ok && d.MeanMS != nil {
		d.max(v)
	}
	w.o.Latencies = append(w.o.Latencies, d.Latency)
}

func (w *wrkReader) percentile(name, value string) {
	q, err := strconv.ParseFloat(name, 64)
	if v, ok := textSeconds(value); ok && err == nil {
		w.current.quantile(q/100, v)
	}
}

// spectrumRow reads "value percentile total 1/(1-percentile)", the value in ms. Of 1, the last is
// infinite or absent.
func (w *wrkReader) spectrumRow(t string) {
	f := strings.Fields(t)
	if len(f) != 3 && len(f) != 4 {
		return
	}
	ms, err1 := strconv.ParseFloat(f[0], 64)
	total, ok := textInt(f[2])
	if err1 != nil || !ok || math.IsNaN(ms) || ms < 0 || total <= w.last {
		return
	}
	// wrk2 occasionally prints a row out of order, which is not a bucket.
	if ms >= w.lastMS {
		w.current.bucket(w.lastMS/1e3, ms/1e3, total-w.last)
		w.last, w.lastMS = total, ms
	}
}

// closing reads the closing lines "#[Mean = 1.3, StdDeviation = 4.3]", "#[Max = 28.8, Total count = 296]", in
// ms.
func (w *wrkReader) closing(t string) {
	w.spectrum = false
	if w.current == nil {
		return
	}
	for _, part := range strings.Split(strings.Trim(t, "#[]"), ",") {
		name, value, _ := strings.Cut(part, "=")
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || math.IsNaN(v) {
			continue
		}
		switch strings.TrimSpace(name) {
		case "Mean":
			w.current.mean(v / 1e3)
		case "Max":
			w.current.max(v / 1e3)
		case "Total count":
			if n := count(v); n != nil {
				w.current.Count = *n
			}
		}
	}
}

func (w *wrkReader) summary(t, word, rest string) error {
	switch {
	case strings.HasPrefix(t, "Running "):
		return nil // the configured duration, as the actual one is at the end
	case strings.Contains(t, " connections") && strings.Contains(t, " threads and "):
		f := strings.Fields(t)
		if n, err := strconv.Atoi(f[len(f)-2]); err == nil && n >= 0 {
			w.o.Connections = &n
		}
	case strings.Contains(t, " requests in "):
		return w.total(t)
	case strings.HasPrefix(t, "Socket errors:"):
		w.errors(strings.TrimPrefix(t, "Socket errors:"))
	case strings.HasPrefix(t, "Non-2xx or 3xx responses:"):
		if n, ok := textInt(t[strings.IndexByte(t, ':')+1:]); ok {
			w.failed = n
		}
	case word == "Requests/sec:":
		if v, ok := textCount(rest); ok {
			w.o.Rate = asRate(v)
		}
	}
	return nil
}

// total reads "1301 requests in 13.00s, 1.42MB read".
func (w *wrkReader) total(t string) error {
	w.end()
	n, rest, _ := strings.Cut(t, " requests in ")
	requests, ok := textInt(n)
	if !ok {
		return fmt.Errorf("%.40q requests", n)
	}
	took, read, _ := strings.Cut(rest, ",")
	if v, ok := textSeconds(took); ok {
		w.o.Elapsed = span(v)
	}
	if v, ok := textSize(strings.TrimSuffix(strings.TrimSpace(read), " read")); ok {
		w.o.BytesIn = count(v)
	}
	w.requests, w.summed = requests, true
	return nil
}

// end completes one distribution and drops it if it has no requests.
func (w *wrkReader) end() {
	d := w.current
	w.current, w.spectrum, w.last, w.lastMS = nil, false, 0, 0
	if d == nil {
		return
	}
	if d.MaxMS != nil && *d.MaxMS == 0 && d.Count == 0 {
		w.o.note("its latency distribution is empty")
		return
	}
	w.o.Latencies = append(w.o.Latencies, d.Latency)
}

// errors reads "connect 0, read 50, write 0, timeout 2".
func (w *wrkReader) errors(t string) {
	for _, part := range strings.Split(t, ",") {
		f := strings.Fields(part)
		if len(f) != 2 {
			continue
		}
		if n, ok := textInt(f[1]); ok && n > 0 {
			w.o.failed(f[0], n)
		}
	}
}

// Shares of slow responses. Up to nearlyAll they move no printed quantile, and up to mostly each printed quantile is a lower
// bound of the one of all.
const (
	nearlyAll = 0.0005
	mostly    = 0.01
)

// slow separates the responses after wrk's timeout. wrk 4 counts them as requests and as timeouts,
// and records no latency of them. A quantile of the others is a lower one of all.
func (w *wrkReader) slow() {
	w.o.Slow = min(w.o.Errors["timeout"], w.requests)
	if w.o.Slow == 0 {
		return
	}
	share := float64(w.o.Slow) / float64(w.requests)
	w.o.note(fmt.Sprintf("wrk has no latency of %d of %d responses, which came after its timeout: latencies are lower bounds", w.o.Slow, w.requests))
	if share <= nearlyAll {
		return
	}
	if share == 1 {
		w.o.Latencies = nil
	}
	for i := range w.o.Latencies {
		l := &w.o.Latencies[i]
		l.MeanMS, l.MaxMS = nil, nil
		if share <= mostly {
			continue
		}
		for k := range l.Quantiles {
			l.Quantiles[k].Q *= 1 - share
		}
	}
}

// join adds the mean and maximum of the thread statistics to the distribution of
// the same kind, so that each kind occurs once.
func join(latencies []result.Latency) []result.Latency {
	var out []result.Latency
	for _, l := range latencies {
		if l.MeanMS == nil && l.MaxMS == nil && l.Quantiles == nil {
			continue
		}
		i := indexOf(out, l.Of)
		if i < 0 {
			out = append(out, l)
			continue
		}
		had := &out[i]
		if had.Quantiles == nil {
			had.Quantiles, had.Buckets, had.Count = l.Quantiles, l.Buckets, l.Count
		}
		if l.MeanMS != nil {
			had.MeanMS = l.MeanMS
		}
		if l.MaxMS != nil {
			had.MaxMS = l.MaxMS
		}
	}
	return out
}

func indexOf(ls []result.Latency, of string) int {
	return slices.IndexFunc(ls, func(l result.Latency) bool { return l.Of == of })
}
