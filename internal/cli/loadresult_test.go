package cli

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// unavailable answers 503 to every request.
func unavailable(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(s.Close)
	return s.URL
}

// exitCode is the exit code of err, as Main returns it.
func exitCode(err error) int { return console.Exit(io.Discard, "tare", err) }

// Failed requests leave no times of success, and their own times have their class.
func TestAllAnswersAre503(t *testing.T) {
	url := unavailable(t)
	for _, rate := range []string{"max", "100"} {
		out := must.Get(runLoadCommand(t, url, "-n", "20", "-c", "2", "-r", rate, "-o", "json"))(t)
		var fields map[string]json.RawMessage
		var r load.Report
		must.OK(t, errors.Join(json.Unmarshal([]byte(out), &fields), json.Unmarshal([]byte(out), &r)))
		for _, name := range []string{"latency_ms", "service_ms", "ttfb_ms", "tls_ms", "histogram"} {
			if fields[name] != nil {
				t.Errorf("%s of no answer: %s", name, fields[name])
			}
		}
		if len(r.Result.Failures) != 1 || !r.Generator.OK {
			t.Errorf("result %+v, generator %+v", r.Result, r.Generator)
		} else if d := difftest.Of("r.Result.Failures[0]", r.Result.Failures[0], (load.Cause{Cause: "status 503", Count: 20}), "*r.Result.Success", *r.Result.Success, 0); d != "" {
			t.Errorf("%s: result %+v, generator %+v", d, r.Result, r.Generator)
		}
		if q := r.FailedMS["5xx"]; q.Count != 20 || q.P50 <= 0 {
			t.Errorf("times of 5xx: %+v", r.FailedMS)
		}
	}
	for _, test := range []struct {
		args    []string
		code    int
		message string
	}{
		{nil, console.Done, ""},
		{[]string{"--gate", "p99 < 50"}, console.Undecided, `gate "p99 < 50" cannot be decided: no request succeeded`},
		{[]string{"--gate", "errors < 1%, p99 < 50"}, console.Gate, `gate "errors < 1%" does not hold: errors 100 %; gate "p99 < 50" cannot`},
		{[]string{"--gate", "p99 < 50", "--expect-status", "200"}, console.Gate, `had another status than expected`},
		{[]string{"--gate", "errors < 1%"}, console.Gate, `gate "errors < 1%" does not hold: errors 100 %`},
		{[]string{"--gate", "errors <= 100%, success >= 0"}, console.Done, ""},
	} {
		out, err := runLoadCommand(t, append(test.args, url, "-n", "20", "-c", "2")...)
		if exitCode(err) != test.code || test.message != "" && !strings.Contains(err.Error(), test.message) {
			t.Errorf("%q: exit code %d, %v", test.args, exitCode(err), err)
		}
		if !strings.Contains(out, "0 % ok (100 % status 503)") || !strings.Contains(out, "Times of failures") || strings.Contains(out, "p99 0") {
			t.Errorf("%q:\n%s", test.args, out)
		}
	}
}

// A refused certificate is the first thing on the page, with x509's reason, and exits with 1.
func TestRefusedCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	out, err := runLoadCommand(t, s.URL, "-n", "20", "-c", "2", "-r", "100")
	if exitCode(err) != console.Failed || !strings.Contains(err.Error(), "certificate refused: x509: ") {
		t.Error(err)
	}
	first, _, _ := strings.Cut(out, "\n")
	if !strings.Contains(first, "0 % ok (100 % certificate refused)") || !strings.Contains(out, "x509: ") || strings.Contains(out, "map[") {
		t.Error(out)
	}
}

// A refused connection or a failed handshake exits with 1, however few there are, unless a gate bounds the failures.
// Other failures do not.
func TestRefusedConnectionsFail(t *testing.T) {
	report := func(causes ...load.Cause) *load.Report {
		r := &load.Report{Requests: 1000, Errors: map[string]int64{}, Classes: map[load.Class]int64{load.OK: 1000}}
		for _, c := range causes {
			r.Classes[load.OK] -= c.Count
			r.Classes[load.Conn] += c.Count
		}
		success := float64(r.Classes[load.OK]) / 1000
		r.Result = load.Result{Success: &success, Failures: causes}
		return r
	}
	for _, test := range []struct {
		gate string // "": not given
		r    *load.Report
		code int
	}{
		{"", report(), console.Done},
		{"", report(load.Cause{Cause: "reset", Count: 900}), console.Done},
		{"", report(load.Cause{Cause: "reset", Count: 900}, load.Cause{Cause: "connect refused", Count: 1}), console.Failed},
		{"", report(load.Cause{Cause: "tls failed", Count: 1}), console.Failed},
		{"", report(load.Cause{Cause: "reset", Count: 1000}), console.Failed}, // nothing was answered
		{"errors < 0.2%", report(load.Cause{Cause: "connect refused", Count: 1}), console.Done},
		{"success > 99.9%", report(load.Cause{Cause: "connect refused", Count: 2}), console.Gate},
		{"rate > 0", report(load.Cause{Cause: "connect refused", Count: 1}), console.Failed},
		{"errors < 60%", report(load.Cause{Cause: "reset", Count: 490}), console.Done},
		{"", &load.Report{}, console.Done}, // interrupted before the measurement
	} {
		f, _ := parsedLoadFlags(t, "http://x")
		if test.gate != "" {
			f.checkedGates = must.Get(parseLoadGates([]string{test.gate}))(t)
		}
		if err := f.verdict(test.r); exitCode(err) != test.code {
			t.Errorf("gate %q, %+v: %v", test.gate, test.r.Result.Failures, err)
		}
	}
}

// A quantile of all requests lies among the failed ones if there are too many of them.
func TestGatesOfTimesWithFailures(t *testing.T) {
	for _, test := range []struct {
		gate    string
		success float64
		limited bool // the generator was the limit
		want    string
	}{
		{"p99 < 50ms", 1, true, "holds: p99 40 ms"},
		{"p99 < 30ms", 1, true, "cannot be decided: the generator was the limit, and p99 40 ms with it"},
		{"errors < 1%", 0.5, true, "does not hold: errors 50 %"},
		{"p99 < 50ms", 1, false, "holds: p99 40 ms"},
		{"p99 < 40", 1, false, "does not hold: p99 40 ms"},
		{"p99 <= 40", 1, false, "holds"},
		{"p99<0.05s", 0.995, false, "holds"},
		{"p99 < 50ms", 0.98, false, `cannot be decided: 2 % of the requests failed, so the p99 of all requests has no time`},
		{"p50 < 50ms", 0.98, false, "holds"},
		{"max < 50ms", 0.9999, false, "cannot be decided"},
		{"rate > 950", 1, false, "holds: rate 1000/s"},
		{"rate >= 1001/s", 1, false, "does not hold"},
		{"success > 97%", 0.98, false, "holds: success 98 %"},
		{"success > 0.99", 0.5, false, "does not hold: success 50 %"},
		{"success > 0.97", 0.98, false, "holds"},
		{"errors < 0.001", 0.9995, false, "holds"},
		{"errors < 0.1%", 0.998, false, "does not hold"},
	} {
		gates := must.Get(parseLoadGates([]string{test.gate}))(t)
		f := &loadFlags{checkedGates: gates}
		r := &load.Report{Rate: 1000, ResponseMS: load.Quantiles{Count: 10, P50: 20, P99: 40, Max: 45}, Result: load.Result{Success: &test.success}, Generator: load.Generator{OK: !test.limited}}
		if got := f.gatesOf(r)[0]; !strings.Contains(got.Text, test.want) || got.Holds != strings.HasPrefix(test.want, "holds") {
			t.Errorf("%s at %v: %+v", test.gate, test.success, got)
		}
	}
	for gate, want := range map[string]string{
		"p99": "has no < or >", "p98 < 1": `unknown figure "p98": did you mean p9`, "p99 < fast": `"fast" is not a limit of p99, such as 50ms`,
		"errors < 1ms": "limit of errors: \"1ms\" is not a share", "rate > NaN": "is not a limit", "p99 < Inf": "is not a limit", "success > NaN": "is not a share",
		"success > 99": `"99" without % is not below 1: write 99% or 0.99`, "errors < 1": "write 1% or 0.01", "errors < -1%": "is not between 0% and 100%", "success > 101%": "is not between",
	} {
		must.Fail(t, must.Err(parseLoadGates([]string{gate})), want, gate)
	}
}

// Each load has a seed of its own, which repeats its arrivals; the number of requests
// follows from the rate.
func TestSeedIsFreshAndRecorded(t *testing.T) {
	url := hello(t)
	seeds := map[uint64]bool{}
	run := func(args ...string) load.Report {
		out, err := runLoadCommand(t, append(args, url, "-r", "400", "-z", "0.25", "--warmup", "0", "-o", "json")...)
		var r load.Report
		must.OK(t, errors.Join(err, json.Unmarshal([]byte(out), &r)))
		if r.Intended != 100 {
			t.Errorf("seed %d: %d requests, want 100", r.Seed, r.Intended)
		}
		return r
	}
	for range 3 {
		seeds[run().Seed] = true
	}
	if len(seeds) != 3 || seeds[0] {
		t.Errorf("seeds %v", seeds)
	}
	if r := run("--seed", "7"); r.Seed != 7 {
		t.Errorf("seed %d", r.Seed)
	}
}
