package importer

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/test/must"
)

// The third of four numbers of logs is usual. A rate fits another one up to 2 % beside it.
func TestUsualLogsAndRatesByHand(t *testing.T) {
	s := &Study{}
	for i, logs := range []int{3, 1, 3, 2, 0} {
		s.Trials = append(s.Trials, Trial{Mesh: "a", logs: logs, Rate: experiment.Rate(100 * (i + 1))})
	}
	if got := s.generators()["a"]; got != 3 {
		t.Errorf("%d logs, want 3", got)
	}
	for sent, want := range map[float64]float64{196: 200, 195.9: 0, 204: 200, 204.1: 0, 100: 0} { // the trial's own rate is no other
		if got, near := s.nearRate(&s.Trials[0], sent); got != want || near != (want > 0) {
			t.Errorf("%v/s is near %v, want %v", sent, got, want)
		}
	}
}

// Trials are numbered from 1, and blocks are the ordinals of a treatment.
func TestOrdinalsOfTrials(t *testing.T) {
	s := &Study{Name: "x", Meshes: []string{"a", "none"}, Trials: []Trial{{Mesh: "a"}, {Mesh: "none"}, {Mesh: "a"}}}
	p, _ := s.expand()
	var got []string
	for _, x := range p.Trials {
		got = append(got, fmt.Sprintf("%s %d %d", x.ID, x.Ordinal, x.Block))
	}
	if want := []string{"001-a-b1 1 1", "002-none-b1 2 1", "003-a-b2 3 2"}; !slices.Equal(got, want) || p.Blocks != 2 {
		t.Errorf("%q in %d blocks, want %q", got, p.Blocks, want)
	}
	s.Trials[0].Files, s.Trials[2].Files = []string{"x"}, []string{"y", "z"}
	must.Contain(t, string(must.Get(s.experiment(p))(t)), "files: 3\n")
}

// A window of 2.5 s has one interval of 2.5 s.
func TestLengthOfTheIntervalLog(t *testing.T) {
	h := hdrhistogram.NewPacked(lowestNS, 60e9, digits)
	must.OK(t, h.RecordValues(5e6, 3))
	log := must.Get(intervalLog(2.5, h, []string{"response.2xx"}))(t)
	one := must.Get(hdrhistogram.NewHistogramLogReader(bytes.NewReader(log)).NextIntervalHistogram())(t)
	if got := one.EndTimeMs() - one.StartTimeMs(); got != 2500 || one.TotalCount() != 3 {
		t.Errorf("%d answers in %d ms", one.TotalCount(), got)
	}
}

// A histogram of 25 buckets resolves quantiles. It has at most the 90 answers and 10 errors.
func TestCountsOfHistogramsAtTheLimit(t *testing.T) {
	for each, ok := range map[int64]bool{4: true, 5: false} {
		l := result.Latency{Of: response}
		for i := range 25 {
			l.Buckets = append(l.Buckets, result.Bucket{LowMS: float64(i), HighMS: float64(i + 1), Count: each})
		}
		o := newOutput(format{failures: true}, "x")
		o.generator, o.Seconds = "fortio", 4
		err := o.add(generator.Outcome{Statuses: map[string]int64{"200": 80, "503": 10}, Errors: map[string]int64{"reset": 10}, Latencies: []result.Latency{l}}, format{failures: true})
		if (err == nil) != ok {
			t.Errorf("%d in the histogram: %v", 25*each, err)
		}
		if ok {
			must.Contain(t, o.warnings[0].Message, "20 failed ones of 100 among them")
		}
	}
	must.Fail(t, ascending([]result.Quantile{{Q: 0.5, MS: 3}, {Q: 0.9, MS: 2}}), "quantile 0.9 is 2 ms, below quantile 0.5")
	_, err := bins(result.Latency{Buckets: []result.Bucket{{LowMS: 0, HighMS: 2, Count: 1}, {LowMS: 1.9, HighMS: 3, Count: 1}}})
	must.Fail(t, err, "bucket 2 of the histogram")
}

// 303 timeouts of 101 idle connections are 3 of each, and 50 requests/s keep 100 connections busy for 2 s.
func TestAmountsOfFalseTimeouts(t *testing.T) {
	o := &Output{generator: "wrk2", connections: 101, requests: 100, tried: 403, Seconds: 2, errors: map[string]int64{"timeout": 303}, classes: map[string]int64{"timeout": 303}}
	o.falseTimeouts()
	must.Contain(t, o.warnings[0].Message, "303 timeouts, 3 for each of its 101 connections")
	must.Contain(t, o.warnings[0].Hint, "fewer connections than 100 ")
}

// Printed figures of a millionth beside the times are rounded, and others are of another file.
func TestRoundingOfPrintedFigures(t *testing.T) {
	file := func(mean string) []byte {
		return []byte(strings.Replace(executedFile, `"mean": 0.6,`, `"mean": `+mean+`,`, 1))
	}
	for mean, ok := range map[string]bool{"0.6000005": true, "0.5999995": true, "0.600001": false, "0.599999": false} {
		if _, err := readHyperfine(file(mean)); (err == nil) != ok {
			t.Errorf("a mean of %s for 0.6: %v", mean, err)
		}
	}
	if got := nanoseconds(5000.5); got != 5_000_500_000_000 {
		t.Errorf("%d ns", got)
	}
}

// Marks are searched in the first and the last MiB.
func TestMarksAtTheEnds(t *testing.T) {
	junk := bytes.Repeat([]byte("x"), searched)
	mark := []byte(" 5 ns/op\n")
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"end":    {slices.Concat(junk, junk, mark), "gobench"},
		"middle": {slices.Concat(junk, mark, junk), ""},
		"begin":  {slices.Concat(mark, junk, junk), "gobench"},
	} {
		if got := programOf(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A file that is too large to be copied has its size and its checksum.
func TestOriginOfALargeFile(t *testing.T) {
	text := strings.Repeat("0123456", maxCopy/7+100)
	a := archive{tar: tar.NewWriter(io.Discard)}
	must.OK(t, a.add("t1", must.File(t, t.TempDir(), "large", text), nil, maxStream))
	want := origin{Trial: "t1", Path: a.origins[0].Path, Bytes: int64(len(text)), SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(text)))}
	if a.origins[0] != want {
		t.Errorf("%+v, want %+v", a.origins[0], want)
	}
}

// Records without a status and without an error are failed checks of the generator's own.
func TestFailedChecksAreCounted(t *testing.T) {
	o, c := newOutput(format{}, "x"), requests{}
	for i := range 2 {
		c.add(o, generator.Record{At: time.Duration(i), Done: time.Second, Service: 1, Response: -1, Failed: true})
	}
	if must.OK(t, c.finish(o)); o.statuses["failed check"] != 2 || o.classes["status"] != 2 || o.requests != 2 {
		t.Errorf("%v, %v, %d requests", o.statuses, o.classes, o.requests)
	}
}
