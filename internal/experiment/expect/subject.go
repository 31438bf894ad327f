package expect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/printable"
)

// subject is the quantity of a condition. measure computes it from the seconds of
// a window, or returns the reason why it cannot.
type subject struct {
	name    string
	unit    string
	measure func(t Trial, in []Second, whole bool) (float64, error)
}

// subjects by name. Statuses are made by [statusSubject].
var subjects = []subject{
	{"success_ratio", "", ratio(func(s Second) int64 { return s.OK })},
	{"error_ratio", "", ratio(func(s Second) int64 { return s.all() - s.OK })},
	{"rate", "1/s", perSecond},
	{"lost", "", count(func(s Second) int64 { return s.all() - s.OK })},
	{"mean", "ms", latency((*hdrhistogram.Histogram).Mean)},
	{"p50", "ms", quantile(50)},
	{"p90", "ms", quantile(90)},
	{"p99", "ms", quantile(99)},
	{"p99.9", "ms", quantile(99.9)},
	{"p99.99", "ms", quantile(99.99)},
	{"max", "ms", latency(func(h *hdrhistogram.Histogram) float64 { return float64(h.Max()) })},
}

func subjectNames() []string {
	names := printable.Texts(subjects, func(s subject) string { return s.name })
	for _, s := range startSubjects {
		names = append(names, s.name)
	}
	for _, s := range changeSubjects {
		names = append(names, s.name)
	}
	return append(names, "status(5xx)", "recovers")
}

func ratio(counted func(Second) int64) func(Trial, []Second, bool) (float64, error) {
	return func(t Trial, in []Second, whole bool) (float64, error) {
		all, _ := count(Second.all)(t, in, whole)
		some, _ := count(counted)(t, in, whole)
		if all == 0 {
			return 0, fmt.Errorf("no request ended in this time")
		}
		return some / all, nil
	}
}

func perSecond(t Trial, in []Second, whole bool) (float64, error) {
	ok, _ := count(func(s Second) int64 { return s.OK })(t, in, whole)
	return ok / float64(len(in)), nil
}

func quantile(q float64) func(Trial, []Second, bool) (float64, error) {
	return latency(func(h *hdrhistogram.Histogram) float64 { return float64(h.ValueAtPercentile(q)) })
}

// Latencies merges the response times of seconds: percentiles are never averaged. It is nil without an answer with 2xx.
func Latencies(of []Second) (sum *hdrhistogram.Histogram) {
	for _, s := range of {
		switch {
		case s.Latency == nil:
		case sum == nil:
			sum = hdrhistogram.Import(s.Latency.Export())
		default:
			sum.Merge(s.Latency)
		}
	}
	return sum
}

// latency is a figure of the response times of the seconds.
func latency(figure func(*hdrhistogram.Histogram) float64) func(Trial, []Second, bool) (float64, error) {
	return func(_ Trial, in []Second, _ bool) (float64, error) {
		sum := Latencies(in)
		if sum == nil || sum.TotalCount() == 0 {
			return 0, fmt.Errorf("no request was answered in this time")
		}
		return figure(sum) / float64(time.Millisecond), nil
	}
}

// statusSubject is "status(503)" or "status(5xx)": the number of answers with it.
func statusSubject(name string) (subject, error) {
	pattern := strings.TrimSuffix(strings.TrimPrefix(name, "status("), ")")
	if !isStatus(pattern) {
		return subject{}, fmt.Errorf("found %.20q, expected a status such as 503 or 5xx", pattern)
	}
	return subject{name: name, measure: func(t Trial, in []Second, whole bool) (float64, error) {
		var these, others int64
		for code, n := range t.Status {
			switch {
			case len(code) != 3:
			case code[:1] == pattern[:1] && (pattern[1:] == "xx" || code == pattern):
				these += n
			case code[:1] != "2":
				others += n
			}
		}
		// Seconds are counted by class, codes only for the whole phase. The counts
		// agree if all failures match the pattern, or none does.
		switch {
		case whole, these == 0:
			return float64(these), nil
		case pattern[0] == '2':
			return 0, fmt.Errorf("statuses of 2xx are not kept by the second; ask for rate or success_ratio")
		case others > 0:
			return 0, fmt.Errorf("there were %d other statuses, and codes are not kept by the second: leave out the window, or ask for success_ratio", others)
		}
		return count(func(s Second) int64 { return s.Status })(t, in, whole)
	}}, nil
}

func count(of func(Second) int64) func(Trial, []Second, bool) (float64, error) {
	return func(_ Trial, in []Second, _ bool) (float64, error) {
		n := int64(0)
		for _, s := range in {
			n += of(s)
		}
		return float64(n), nil
	}
}

func isStatus(p string) bool {
	if len(p) != 3 || p[0] < '1' || p[0] > '5' {
		return false
	}
	_, err := strconv.Atoi(p)
	return p[1:] == "xx" || err == nil
}
