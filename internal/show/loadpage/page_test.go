package loadpage

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
)

// example is a load with successful and failed requests, and all that a page can contain.
func example() (load.Profile, load.Report) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	success := 0.99
	q := load.Quantiles{Count: 990, Mean: 0.412, Min: 0.2, P10: 0.21, P25: 0.25, P50: 0.331, P75: 0.38, P90: 0.5, P95: 0.7, P99: 1.23, P999: 4.5, P9999: 5.1, Max: 5.1}
	p := load.Profile{Targets: []string{"https://shop.example/" + strings.Repeat("a-long-path/", 30), "https://shop.example/b"}, Rate: 200, Arrivals: load.Poisson, Connections: 8, Workers: 1, Warmup: time.Second}
	r := load.Report{
		Loop: "open", Protocol: load.ProtocolHTTP1, Arrivals: load.Poisson, Seed: 42, MeasureStart: start, MeasureEnd: start.Add(5 * time.Second),
		Requests: 1000, Intended: 1000, Sent: 1000, Completed: 1000, Rate: 200, TLS: "TLS 1.3 TLS_AES_128_GCM_SHA256",
		Classes:  map[load.Class]int64{load.OK: 990, load.Status: 7, load.Conn: 3},
		Statuses: map[string]int64{"200": 990, "503": 7}, Errors: map[string]int64{"certificate refused": 3},
		Result: load.Result{Success: &success, Failures: []load.Cause{{Cause: "status 503", Count: 7},
			{Cause: "certificate refused", Count: 3, Detail: "x509: certificate signed by unknown authority " + strings.Repeat("and so on ", 20)}}},
		Generator:  load.Generator{OK: false, Limits: []string{"sent late: half of the requests"}, Notes: []string{"tasks waited for a CPU"}},
		Warnings:   []string{"sent late: half of the requests", "tasks waited for a CPU", "not steady: " + strings.Repeat("so ", 80)},
		ResponseMS: q, ServiceMS: q, TTFBMS: q, ConnectMS: q, TLSMS: q, LatenessUS: q, OwnLatenessUS: q,
		FailedMS: map[string]load.Quantiles{"5xx": q, "conn": q},
		Routes:   map[string]load.RouteTimes{"/" + strings.Repeat("a-long-path/", 30): {Requests: 900, Failed: 10, MeanMS: 0.3, ResponseMS: q}, "/b": {}},
		BytesIn:  12345678, BytesOut: 1234, Reconnects: 3, IdleClosed: 730221, GoAways: 12,
		Lost: map[string]int64{"goaway": 47, "timeout": 1}, Reasons: map[string]string{"goaway": "code 11 (ENHANCE_YOUR_CALM): slow down"}, TLSResumed: 4,
		Addresses: map[string]int64{"127.0.0.1:1": 4, "127.0.0.2:1": 4}, CPUSeconds: 0.2, ThreadCPURatio: 0.03,
	}
	return p, r
}

// Paths of others' files, such as access logs, do not reach the terminal with their controls.
func TestHostilePaths(t *testing.T) {
	const hostile = "/x\x1b]0;owned\x07\u009b2J\u202eevil"
	p, r := example()
	p.Targets = append(p.Targets, "http://127.0.0.1"+hostile)
	r.Routes = map[string]load.RouteTimes{hostile: {Requests: 900, Failed: 10, MeanMS: 0.3}}
	var b bytes.Buffer
	must.OK(t, Write(&b, &p, &r, Options{}))
	if text := b.String(); printable.Text(text) != text || strings.Count(text, "evil") != 2 {
		t.Errorf("%q", text)
	}
}

// The answer is the first line, and no line is wider than the terminal.
func TestPageFits(t *testing.T) {
	p, r := example()
	for _, width := range []int{0, 60, 61, 70, 79, 80, 100, 110, 120, 200, 300} {
		for _, color := range []bool{false, true} {
			var b bytes.Buffer
			must.OK(t, Write(&b, &p, &r, Options{Width: width, Color: color, Gates: []Gate{{Text: "gate \"p99 < 1ms\" does not hold: p99 1.23 ms"}, {Text: strings.Repeat("long ", 60), Holds: true}}}))
			text := b.String()
			most := min(max(width, minWidth), maxWidth)
			if width == 0 {
				most = defaultWidth
			}
			for line := range strings.SplitSeq(text, "\n") {
				if got := ansi.StringWidth(line); got > most {
					t.Errorf("width %d: a line has %d columns: %s", most, got, line)
				}
			}
			if strings.Contains(text, "\x1b") != color {
				t.Errorf("colour %v: %q", color, text)
			}
			plain := strings.Join(strings.Fields(ansi.Strip(text)), " ")
			if !strings.HasPrefix(plain, "200.0 req/s, 99.0 % ok (0.70 % status 503, 0.30 % certificate refused), p50 0.33 ms, p99 1.2 ms The generator was the limit") {
				t.Errorf("width %d begins with %.200s", most, plain)
			}
			for _, want := range []string{"seed 42", "p75", "p95", "certificate refused: x509: certificate signed", "status 503", "5xx", "reconnects 3", "closed idle 730221 connections, by the server", "goaway 12 connections, by the server: code 11 (ENHANCE_YOUR_CALM): slow down",
				"Lost without an answer", "47 97.9 % goaway: code 11 (ENHANCE_YOUR_CALM): slow down", "1 2.08 % timeout",
				"URLs", "910 10 0.3310 0.7000 1.230 /a-long", "0 0 - - - /b", "lateness", "limit sent late", "note tasks waited", "warning not steady", "✗ gate"} {
				if !strings.Contains(plain, want) {
					t.Errorf("width %d lacks %q:\n%s", most, want, text)
				}
			}
			if strings.Contains(text, "map[") || strings.Count(plain, "sent late: half of the requests") != 1 {
				t.Errorf("width %d:\n%s", most, text)
			}
			if width == 80 && !color {
				t.Log("\n" + text)
			}
		}
	}
}

// A load without a single success has no times, and no zeros in their place.
func TestPageWithoutSuccess(t *testing.T) {
	p, r := example()
	none := 0.0
	r.Result.Success, r.ResponseMS, r.ServiceMS, r.TTFBMS = &none, load.Quantiles{}, load.Quantiles{}, load.Quantiles{}
	r.Generator = load.Generator{OK: true}
	var b bytes.Buffer
	must.OK(t, Write(&b, &p, &r, Options{}))
	first, _, _ := strings.Cut(b.String(), "\n")
	if !strings.HasPrefix(first, "200.0 req/s, 0 % ok (") || strings.Contains(b.String(), "Times ") && !strings.Contains(b.String(), "Times of failures") {
		t.Errorf("%s", b.String())
	}
}

// A load that was stopped before its measurement has no answer.
func TestPageOfNothing(t *testing.T) {
	var b bytes.Buffer
	must.OK(t, Write(&b, &load.Profile{Targets: []string{"http://x/"}}, &load.Report{Warnings: []string{"stopped before the measure window began"}}, Options{}))
	if !strings.HasPrefix(b.String(), "No request was measured: stopped before the measure window began\n") || strings.Contains(b.String(), "Times") {
		t.Errorf("%s", b.String())
	}
}

func TestBars(t *testing.T) {
	for share, want := range map[float64]string{0: "    ", 1e-9: "▏   ", 0.5: "██  ", 0.4: "█▋  ", 1: "████"} {
		if got := bar(share, 4); got != want {
			t.Errorf("bar of %v: %q", share, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 1: "100 %", 0.973: "97.3 %", 0.9994: "99.9 %", 0.99999: "99.999 %", 0.9999996: "99.99996 %", 0.0123: "1.23 %", 0.0001: "0.010 %", 0.00000053: "0.000053 %"} {
		if got := percentText(share); got != want {
			t.Errorf("percentText(%v) = %q, want %q", share, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.3312: "0.33", 1.23: "1.2", 12.6: "13", 1234: "1234", 0.001234: "0.0012", 9.96: "10.0"} {
		if got := short(v); got != want {
			t.Errorf("short(%v) = %q, want %q", v, got, want)
		}
	}
}

// The live line fits every width, and shows the rest.
func TestLiveLine(t *testing.T) {
	profile := load.Profile{Warmup: 2 * time.Second, Measure: 8 * time.Second}
	byNumber := load.Profile{Requests: 10_000, Measure: 24 * time.Hour}
	for _, width := range []int{40, 60, 80, 100, 200} {
		for _, p := range []*load.Profile{&profile, &byNumber} {
			var b bytes.Buffer
			l := Live{W: &b, Width: func() int { return width }, Profile: p}
			for s := range 5 {
				b.Reset()
				l.Show(load.Progress{Second: s, Phase: "measure", Intended: 1000, Completed: 998, Errors: int64(s), P50MS: 0.33, P99MS: float64(s + 1)})
			}
			line := strings.TrimSuffix(strings.TrimPrefix(b.String(), "\r"), "\x1b[K")
			if ansi.StringWidth(line) >= width || !strings.Contains(line, "998/s  10 errors") || strings.Contains(line, "p50 ") != (width > 40) || !strings.Contains(line, "p99 ") ||
				!strings.Contains(line, map[bool]string{true: "5s left", false: "5010 left"}[p == &profile]) || strings.Contains(line, "measure █") != (width >= 80) {
				t.Errorf("%d columns: %q", width, line)
			}
			b.Reset()
			if l.Clear(); b.String() != "\r\x1b[K" {
				t.Errorf("%q", b.String())
			}
		}
	}
}
