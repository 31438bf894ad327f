package experiment_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment"
)

const recordedFile = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: x}
factors: {mesh: [none]%RATE}
phases: {warmup: 1s, measure: 4s, drain: 1s}
load:
  arrivals: recorded%MORE
  requests:
    - {path: /a, at: 0 1 1.2}
    - {path: /b, at: 0.5}
`

func decodeRecorded(rate, more string) (*experiment.Experiment, error) {
	text := strings.NewReplacer("%RATE", rate, "%MORE", more).Replace(recordedFile)
	return experiment.Parse("x.yaml", []byte(text), shipped())
}

// A recording of 1.2 s with four requests repeats every 1.6 s, a mean gap after its last request. The measure phase
// begins with its first request, in each trial.
func TestRecordingRepeats(t *testing.T) {
	e := must.Get(decodeRecorded("", ""))(t)
	sameAfterRendering(t, e, shipped())
	if got := experiment.LevelsOf[experiment.RateLevel](e.Factors, "rate"); len(got) != 1 || got[0].Rate != 2.5 { // 10 requests in 4 s
		t.Errorf("rate %v", got)
	}
	at, requests := e.Load.Recording().Schedule(2.5, time.Second, 4*time.Second, time.Second/2)
	var seconds []float64
	for _, x := range at {
		seconds = append(seconds, float64(time.Duration(x).Round(time.Microsecond))/1e9)
	}
	want := []float64{0.4, 0.6, 1, 1.5, 2, 2.2, 2.6, 3.1, 3.6, 3.8, 4.2, 4.7, 5.2, 5.4}
	if !slices.Equal(seconds, want) || !slices.Equal(requests, []int{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}) {
		t.Errorf("%v\nwant %v, requests %v", seconds, want, requests)
	}
}

// A rate applies to the measure phase: the recording is replayed faster or slower.
func TestRecordingAtARate(t *testing.T) {
	e := must.Get(decodeRecorded(", rate: [0.5, 2, 100, 997]", ""))(t)
	sameAfterRendering(t, e, shipped())
	for _, level := range experiment.LevelsOf[experiment.RateLevel](e.Factors, "rate") {
		at, requests := e.Load.Recording().Schedule(float64(level.Rate), time.Second, 4*time.Second, 0)
		first := slices.IndexFunc(at, func(x int64) bool { return x >= int64(time.Second) })
		if n := len(at) - first; n != int(4*level.Rate) {
			t.Errorf("rate %v: %d requests in 4 s", level.Rate, n)
		}
		if !slices.IsSorted(at) || at[0] < 0 {
			t.Errorf("rate %v: %v, requests %v", level.Rate, at, requests)
		} else if d := difftest.Of("requests[first]", requests[first], 0, "at[first]", at[first], int64(time.Second)); d != "" {
			t.Errorf("%s: rate %v: %v, requests %v", d, level.Rate, at, requests)
		}
	}
}

func TestMistakesOfRecordings(t *testing.T) {
	for _, test := range []struct{ rate, more, want string }{
		{", rate: [max]", "", "factors.rate: instants need a rate"},
		{`, rate: [{max: "p99 < 5ms"}]`, "", "factors.rate: instants need a rate"},
		{", rate: [100000]", "", "a trial has 500000 requests at instants"},
		{"", "\n  workers: 2", "load.workers: one worker sends a recording"},
		{"", "\n  cookies: true", "load.cookies: the recording has the order"},
		{"", "\n  profile: {steps: [{for: 1s, at: 2}]}", "load.profile: the rate is that of the instants"},
	} {
		must.Fail(t, must.Err(decodeRecorded(test.rate, test.more)), test.want, test.rate, test.more)
	}
	for from, change := range map[string][2]string{
		"arrivals: recorded":              {"arrivals: poisson", "load.requests: the requests have instants, and the arrivals are poisson"},
		", at: 0.5":                       {"", "load.requests[1]: other requests have instants"},
		"at: 0.5":                         {"at: -1", `found "-1", expected seconds`},
		"/b, at: 0.5":                     {"/b, at: 1e9", "is more than"},
		", at: 0 1 1.2}\n    - {path: /b": {"", "a single instant has no rate"},
		"at: 0 1 1.2":                     {"at: 0 2591999", "more than a century"},
		"load:":                           {"order: interleaved\nload:", "a recording is of one load"},
	} {
		text := strings.NewReplacer("%RATE", map[bool]string{true: ", rate: [50000]"}[strings.Contains(change[0], "2591999")], "%MORE", "").Replace(recordedFile)
		if !strings.Contains(text, from) {
			t.Fatal(from)
		}
		_, err := experiment.Parse("x.yaml", []byte(strings.Replace(text, from, change[0], 1)), shipped())
		must.Fail(t, err, change[1], change[0])
	}
}

// Thousands of requests in one microsecond can make a rate impossible, and a part of the recording can have more requests
// than a trial may have.
func TestDenseRecordings(t *testing.T) {
	var end strings.Builder // 39,999 instants between 10 s and 10.4 s, which the warm-up repeats
	end.WriteString("0")
	for i := range 39_999 {
		fmt.Fprintf(&end, " %.5f", 10+float64(i)/1e5)
	}
	first, later := strings.Repeat("0.000001 ", 5000), strings.Repeat(" 1.000001", 5000)
	for _, test := range []struct{ instants, rate, warmup, measure, want string }{
		{first + "5", "1", "1s", "3s", "factors.rate[0]: more requests have the first instant than a trial has"},
		{"0 0.000001 3600", "0.4", "1s", "3s", "factors.rate[0]: the first requests have almost the same instant"},
		{end.String(), "0.1", "10m", "10s", "factors.rate[0]: a trial has over 400000 requests at instants, max 400000"},
		{"0" + later, "2", "1s", "2s", "factors.rate[0]: requests have the same instant: the measure phase has 1, and the rate requires 4"},
		{"0 1 2 2 2 3", "2", "1s", "2s", ""},
		{"0 0 0 0 5", "1", "1s", "3s", ""},
		{"7 7 7", "2.5", "1s", "2s", ""},
	} {
		text := fmt.Sprintf(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: x}
factors: {mesh: [none], rate: [%s]}
phases: {warmup: %s, measure: %s, drain: 1s}
load: {arrivals: recorded, requests: [{path: /a, at: %s}]}
`, test.rate, test.warmup, test.measure, test.instants)
		_, err := experiment.Parse("x.yaml", []byte(text), shipped())
		must.Match(t, err, test.want, fmt.Sprintf("%.40s at %s", test.instants, test.rate))
	}
}

// Requests with the same instant are spread over the precision of the instants: a log of whole seconds has many of them.
func TestEqualInstantsAreSpread(t *testing.T) {
	for _, test := range []struct{ instants, want string }{
		{"10 11 11 11 11 13", "0 1 1.25 1.5 1.75 3"},
		{"0 0.002 0.002 0.005", "0 0.002 0.0025 0.005"},
		{"4 4 4 4", "0 0.25 0.5 0.75"},
		{"0.5 2 2.5", "0 1.5 2"},
	} {
		var at experiment.Instants
		must.OK(t, at.UnmarshalScalar(test.instants))
		l := experiment.Load{Requests: []experiment.Request{{Path: "/a", At: at[:1]}, {Path: "/b", At: at[1:]}}}
		if got, err := experiment.Instants(l.Recording().At).MarshalText(); err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v, want %s", test.instants, got, err, test.want)
		}
	}
}

// The default rate has the requests of the recording, in long measure phases too.
func TestRecordedRateOfLongPhases(t *testing.T) {
	for _, test := range []struct {
		instants, measure string
		want              int
	}{{"0 20000", "20000s", 1}, {"0 20", "3s", 1}, {"0 200", "49s", 1}, {"0 1 2.5", "86399s", 69120}} {
		text := strings.NewReplacer("%RATE", "", "%MORE", "", "measure: 4s", "measure: "+test.measure, "at: 0 1 1.2", "at: "+test.instants, "    - {path: /b, at: 0.5}\n", "").Replace(recordedFile)
		e := must.Get(experiment.Parse("x.yaml", []byte(text), shipped()))(t)
		rate := experiment.LevelsOf[experiment.RateLevel](e.Factors, "rate")[0].Rate
		at, _ := e.Load.Recording().Schedule(float64(rate), 0, time.Duration(e.Phases.Measure), 0)
		if len(at) != test.want {
			t.Errorf("%s: %d requests at rate %v", test.instants, len(at), rate)
		}
	}
}

func TestInstants(t *testing.T) {
	var x experiment.Instants
	if err := x.UnmarshalScalar("0 0.0000014 2.72 86400"); err != nil || !reflect.DeepEqual(x, experiment.Instants{0, time.Microsecond, 2720 * time.Millisecond, 24 * time.Hour}) {
		t.Errorf("%v, %v", x, err)
	}
	if text, err := x.MarshalText(); err != nil || string(text) != "0 0.000001 2.72 86400" {
		t.Errorf("%s, %v", text, err)
	}
}
