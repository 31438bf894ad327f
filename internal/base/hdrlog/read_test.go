package hdrlog

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
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
			if err := w.OutputIntervalHistogram(h); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b.String(), want
}

func relative(second int) (string, string, int64) {
	return "[BaseTime: 1767225600.25 (seconds since epoch)]", "[StartTime: 1767225600.25 (seconds since epoch), 2026]", int64(second) * 1000
}

func logFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "latency.hdr")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The sum of counts must be the library's own merge, for every form of time stamps.
func TestReadLogAgreesWithTheLibrary(t *testing.T) {
	for name, stamp := range map[string]func(int) (string, string, int64){
		"base time":             relative,
		"relative to the start": func(s int) (string, string, int64) { _, start, ms := relative(s); return "", start, ms },
		"absolute": func(s int) (string, string, int64) {
			_, start, ms := relative(s)
			return "", start, 1767225600250 + ms
		},
		"no comments": func(s int) (string, string, int64) { return "", "", int64(s) * 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			text, want := writeTestLog(t, 7, stamp)
			for _, text := range []string{text, strings.ReplaceAll(text, "\n", "\r\n")} {
				got, err := ReadFile(logFile(t, text), Window{2, 6}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if len(got) != len(want) {
					t.Fatalf("tags %d, want %d", len(got), len(want))
				}
				for tag, h := range want {
					if same := got[tag].Histogram(); !same.Equals(h) {
						t.Errorf("%s: %d values, p99 %d; the library has %d, %d", tag, same.TotalCount(), same.ValueAtPercentile(99), h.TotalCount(), h.ValueAtPercentile(99))
					}
				}
				merged := map[string]*hdrhistogram.Histogram{}
				if err := ReadSeconds(strings.NewReader(text), func(second int, tag string, h *hdrhistogram.Histogram) error {
					switch {
					case second < 2 || second >= 6:
					case merged[tag] == nil:
						merged[tag] = h
					default:
						merged[tag].Merge(h)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				for tag, h := range want {
					if !merged[tag].Equals(h) {
						t.Errorf("%s: %d values by the second, the library has %d", tag, merged[tag].TotalCount(), h.TotalCount())
					}
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
	coarse, err := other.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	// Line 8 is the first of second 2, the first inside the window; lines 1 to 3 are comments and the legend.
	for _, c := range []struct{ name, text, message string }{
		{"cut inside a histogram", strings.Join(lines[:7], "") + lines[7][:len(lines[7])/2], ":8: the histogram ends early"},
		{"cut before the histogram", strings.Join(lines[:7], "") + "Tag=lateness,2.0", ":8: found 1 fields"},
		{"no comma after the tag", strings.Join(lines[:7], "") + "Tag=lateness\n", ":8: nothing follows the tag"},
		{"no number", strings.Join(lines[:7], "") + "Tag=a,x,1,1,HIST\n", ":8: strconv.ParseFloat"},
		{"not a histogram", strings.Join(lines[:7], "") + "Tag=lateness,2,1,1,AAAAAAAAAAAAAAAA\n", ":8: not a compressed V2 histogram"},
		{"another precision", text + "Tag=lateness,3,1,1," + string(coarse) + "\n", ":14: the histograms of one tag differ"},
		{"no time", strings.Join(lines[:7], "") + "Tag=a,NaN,1,1,HIST\n", ":8: time stamp NaN"},
		{"a bad start time", "#[StartTime: soon]\n", ":1: #[StartTime:"},
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
			err = ReadIntervals(strings.NewReader(c.text), func(_, _ time.Duration, _ string, _ *hdrhistogram.Histogram) error { return nil })
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
		m, err := ReadFile(logFile(t, strings.Join(lines[:i], "")), w, nil)
		if err != nil {
			t.Fatal(err)
		}
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
	for _, s := range m {
		n += int(s.Total())
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
		if err := ReadIntervals(bytes.NewReader(b), func(_, _ time.Duration, tag string, h *hdrhistogram.Histogram) error {
			counts[tag] += h.TotalCount()
			return nil
		}); err != nil {
			t.Fatalf("added up without an error, yet: %v", err)
		}
		for tag, s := range m {
			if s.Total() != counts[tag] {
				t.Errorf("tag %q: %d values added up, %d in the intervals", tag, s.Total(), counts[tag])
			}
		}
		// An accepted log has quantiles.
		for _, s := range m {
			likeTheLibrary(t, s)
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
		m, err := ReadFile(path, Window{2, seconds - 1}, nil)
		if err != nil {
			b.Fatal(err)
		}
		m.Free()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(2*(seconds-3)), "ns/histogram")
}

func BenchmarkReadLogLibrary(b *testing.B) {
	const seconds = 60
	text, _ := writeTestLog(b, seconds, relative)
	n := 0
	for b.Loop() {
		r := hdrhistogram.NewHistogramLogReader(strings.NewReader(text))
		sums := map[string]*hdrhistogram.Histogram{}
		for {
			h, err := r.NextIntervalHistogram()
			if err != nil {
				b.Fatal(err)
			}
			if h == nil {
				break
			}
			n++
			if s := sums[h.Tag()]; s != nil {
				s.Merge(h)
			} else {
				sums[h.Tag()] = h
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/histogram")
}

func TestZigzagAgreesWithTheFormat(t *testing.T) {
	for _, c := range []struct {
		bytes []byte
		v     int64
	}{{[]byte{0x00}, 0}, {[]byte{0x01}, -1}, {[]byte{0x02}, 1}, {[]byte{0x80, 0x01}, 64}, {[]byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, math.MaxInt64}} {
		t.Run(fmt.Sprint(c.v), func(t *testing.T) {
			v, n := zigzag(c.bytes)
			if v != c.v || n != len(c.bytes) {
				t.Errorf("%d of %d bytes, want %d of %d", v, n, c.v, len(c.bytes))
			}
			if _, n := zigzag(c.bytes[:len(c.bytes)-1]); n != 0 {
				t.Errorf("cut short, yet %d bytes were read", n)
			}
		})
	}
}
