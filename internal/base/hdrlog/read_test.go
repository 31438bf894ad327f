package hdrlog

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// writeTestLog writes a log of seconds*2 histograms. It returns its lines and the library's sum over [2, 2+measure).
func writeTestLog(t testing.TB, seconds int, stamp func(second int) (base, start string, ms int64)) (string, map[string]*hdrhistogram.Histogram) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 5))
	var b bytes.Buffer
	w := hdrhistogram.NewHistogramLogWriter(&b)
	base, start, _ := stamp(0)
	for _, c := range []string{start, base} {
		if c != "" {
			_ = w.OutputComment(c)
		}
	}
	_ = w.OutputLegend()
	want := map[string]*hdrhistogram.Histogram{}
	for s := range seconds {
		for _, tag := range []string{"response.2xx", "lateness"} {
			h := hdrhistogram.New(1000, 60e9, 3)
			for range 400 {
				_ = h.RecordValue(int64(2e5 * math.Exp(2*r.NormFloat64())))
			}
			if s >= 2 && s < seconds-1 {
				if want[tag] == nil {
					want[tag] = hdrhistogram.New(1000, 60e9, 3)
				}
				want[tag].Merge(h)
			}
			h.SetTag(tag)
			_, _, ms := stamp(s)
			h.SetStartTimeMs(ms)
			h.SetEndTimeMs(ms + 1000)
			must.OK(t, w.OutputIntervalHistogram(h))
		}
	}
	return b.String(), want
}

func relative(second int) (string, string, int64) {
	return "[BaseTime: 1767225600.25 (seconds since epoch)]", "[StartTime: 1767225600.25 (seconds since epoch), 2026]", int64(second) * 1000
}

func logFile(t testing.TB, text string) string {
	t.Helper()
	path := must.File(t, t.TempDir(), "latency.hdr", text)
	return path
}

// The sum of counts must be the library's own merge.
func TestReadLogAgreesWithTheLibrary(t *testing.T) {
	for name, stamp := range map[string]func(int) (string, string, int64){
		"base time":   relative,
		"no comments": func(s int) (string, string, int64) { return "", "", int64(s) * 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			text, want := writeTestLog(t, 7, stamp)
			for _, text := range []string{text, strings.ReplaceAll(text, "\n", "\r\n")} {
				got := must.Get(ReadFile(logFile(t, text), Window{2, 6}, nil))(t)
				if len(got) != len(want) {
					t.Fatalf("tags %d, want %d", len(got), len(want))
				}
				for tag, h := range want {
					if same := Dense(got[tag]); !same.Equals(h) {
						t.Errorf("%s: %d values, p99 %d; the library has %d, %d", tag, same.TotalCount(), same.ValueAtPercentile(99), h.TotalCount(), h.ValueAtPercentile(99))
					}
				}
				merged := Sums{}
				must.OK(t, ReadSeconds(strings.NewReader(text), func(second int, tag string, h *hdrhistogram.PackedHistogram) error {
					switch {
					case second < 2 || second >= 6:
					case merged[tag] == nil:
						merged[tag] = h
					default:
						return Add(merged[tag], h)
					}
					return nil
				}))
				if !maps.EqualFunc(merged, got, Equal) {
					t.Errorf("by the second %v, in the window %v", merged, got)
				}
			}
		})
	}
}

func TestReadLogErrorsNameTheLine(t *testing.T) {
	text, _ := writeTestLog(t, 5, relative)
	lines := strings.SplitAfter(text, "\n")
	other := hdrhistogram.New(1000, 60e9, 2)
	_ = other.RecordValue(5000)
	coarse := must.Get(other.Encode(hdrhistogram.V2CompressedEncodingCookieBase))(t)
	// Line 8 is the first of second 2, the first inside the window; lines 1 to 3 are comments and the legend.
	for _, c := range []struct{ name, text, message string }{
		{"cut inside a histogram", strings.Join(lines[:7], "") + lines[7][:len(lines[7])/2], ":8: the histogram is cut off or damaged"},
		{"cut before the histogram", strings.Join(lines[:7], "") + "Tag=lateness,2.0", ":8: found 1 fields"},
		{"no comma after the tag", strings.Join(lines[:7], "") + "Tag=lateness\n", ":8: nothing follows the tag"},
		{"no number", strings.Join(lines[:7], "") + "Tag=a,x,1,1,HIST\n", ":8: strconv.ParseFloat"},
		{"not a histogram", strings.Join(lines[:7], "") + "Tag=lateness,2,1,1,AAAAAAAAAAAAAAAA\n", ":8: the histogram is cut off or damaged"},
		{"another precision", text + "Tag=lateness,3,1,1," + string(coarse) + "\n", ":14: the histograms of one tag differ"},
		{"no time", strings.Join(lines[:7], "") + "Tag=a,NaN,1,1,HIST\n", ":8: time stamp NaN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadFile(logFile(t, c.text), Window{2, 4}, nil)
			var log *Error
			if !errors.As(err, &log) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("error %v, want one with %q", err, c.message)
			}
			if c.name == "another precision" {
				return // histograms that are not added up may differ
			}
			err = ReadIntervals(strings.NewReader(c.text), func(_, _ time.Duration, _ string, _ *hdrhistogram.PackedHistogram) error { return nil })
			if !errors.As(err, &log) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("intervals: error %v, want one with %q", err, c.message)
			}
		})
	}
}

// A log cut at any byte gives no figure from a partial histogram.
func TestReadLogCutAnywhere(t *testing.T) {
	text, _ := writeTestLog(t, 4, relative)
	w := Window{0, 10}
	lines := strings.SplitAfter(text, "\n")
	whole := map[int]bool{} // counts after each whole line
	for i := range lines {
		m := must.Get(ReadFile(logFile(t, strings.Join(lines[:i], "")), w, nil))(t)
		whole[total(m)] = true
	}
	for cut := 0; cut < len(text); cut += 37 {
		m, err := ReadFile(logFile(t, text[:cut]), w, nil)
		if err == nil && !whole[total(m)] {
			t.Fatalf("cut at %d: %d values, which no whole line ends with", cut, total(m))
		}
	}
}

func total(m Sums) int {
	n := 0
	for tag := range m {
		n += int(m.Total(tag))
	}
	return n
}

func FuzzReadLog(f *testing.F) {
	text, _ := writeTestLog(f, 3, relative)
	f.Add([]byte(text))
	f.Add([]byte("Tag=a,0,1,1,HISTFAAA\n#[BaseTime: x\n,,,\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := read(bytes.NewReader(b), "latency.hdr", Window{-1e12, 1e12}, nil)
		if err != nil {
			return
		}
		counts := map[string]int64{}
		if err := ReadIntervals(bytes.NewReader(b), func(_, _ time.Duration, tag string, h *hdrhistogram.PackedHistogram) error {
			counts[tag] += h.TotalCount()
			return nil
		}); err != nil {
			t.Fatalf("added up without an error, yet: %v", err)
		}
		for tag, h := range m {
			if m.Total(tag) != counts[tag] {
				t.Errorf("tag %q: %d values added up, %d in the intervals", tag, m.Total(tag), counts[tag])
			}
			// An accepted log has quantiles.
			if d := Dense(h); h.Mean() != d.Mean() || h.Max() != d.Max() || h.ValueAtPercentile(99) != d.ValueAtPercentile(99) {
				t.Errorf("tag %q: mean %v, p99 %d, maximum %d; dense %v, %d, %d", tag, h.Mean(), h.ValueAtPercentile(99), h.Max(), d.Mean(), d.ValueAtPercentile(99), d.Max())
			}
		}
	})
}

// One line of the load engine's log, as analysis reads it and as the library would.
func BenchmarkReadLog(b *testing.B) {
	const seconds = 60
	text, _ := writeTestLog(b, seconds, relative)
	path := logFile(b, text)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		must.Get(ReadFile(path, Window{2, seconds - 1}, nil))(b)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(2*(seconds-3)), "ns/histogram")
}

// An interval that was written is read back.
func TestWriter(t *testing.T) {
	h := hdrhistogram.NewPacked(1000, 60e9, 3)
	for _, ns := range []int64{0, 1, 1048575, 5e6, 6e10} {
		must.OK(t, h.RecordValues(ns, 3))
	}
	var b bytes.Buffer
	start := time.Unix(1_767_225_600, 250_000_000)
	w, err := NewWriter(&b, start, "a test")
	must.OK(t, errors.Join(err, w.Interval(time.Second, 2500*time.Millisecond, "response.2xx", h), w.Flush()))
	library, err := hdrhistogram.NewHistogramLogReader(bytes.NewReader(b.Bytes())).NextIntervalHistogram()
	if err != nil || !library.Equals(Dense(h)) {
		t.Errorf("the library reads %v, %v", library, err)
	}
	if got, want := library.StartTimeMs(), start.UnixMilli()+1000; got != want {
		t.Errorf("the library reads start %d, want %d", got, want)
	}
	if err := ReadIntervals(&b, func(from, to time.Duration, tag string, got *hdrhistogram.PackedHistogram) error {
		if d := difftest.Of("from", from, time.Second, "to", to, 2500*time.Millisecond, "tag", tag, "response.2xx", "Equal(got, h)", Equal(got, h), true); d != "" {
			t.Errorf("%s: %v to %v, %s, %d values", d, from, to, tag, got.TotalCount())
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
