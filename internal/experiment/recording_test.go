package experiment_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

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
	return experiment.Decode("x.yaml", []byte(text), shipped())
}

// A recording of 1.2 s with four requests repeats every 1.6 s, a mean gap after its last request. The measure phase
// begins with its first request, in each trial.
func TestRecordingRepeats(t *testing.T) {
	e, err := decodeRecorded("", "")
	if err != nil {
		t.Fatal(err)
	}
	sameAfterRendering(t, e)
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

// A rate is that of the measure phase, at which the recording is faster or slower.
func TestRecordingAtARate(t *testing.T) {
	e, err := decodeRecorded(", rate: [0.5, 2, 100, 997]", "")
	if err != nil {
		t.Fatal(err)
	}
	sameAfterRendering(t, e)
	for _, level := range experiment.LevelsOf[experiment.RateLevel](e.Factors, "rate") {
		at, requests := e.Load.Recording().Schedule(float64(level.Rate), time.Second, 4*time.Second, 0)
		first := slices.IndexFunc(at, func(x int64) bool { return x >= int64(time.Second) })
		if n := len(at) - first; n != int(4*level.Rate) {
			t.Errorf("rate %v: %d requests in 4 s", level.Rate, n)
		}
		if !slices.IsSorted(at) || at[0] < 0 || requests[first] != 0 || at[first] != int64(time.Second) {
			t.Errorf("rate %v: %v, requests %v", level.Rate, at, requests)
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
		{"", "\n  profile: {sine: {period: 1s, swing: 50%}}", "load.profile: the rate is that of the instants"},
	} {
		if _, err := decodeRecorded(test.rate, test.more); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s%s: %v\nwant %s", test.rate, test.more, err, test.want)
		}
	}
	for from, change := range map[string][2]string{
		"arrivals: recorded": {"arrivals: poisson", "load.requests: the requests have instants, and the arrivals are poisson"},
		", at: 0.5":          {"", "load.requests[1]: other requests have instants"},
		"at: 0.5":            {"at: -1", `found "-1", expected seconds`},
		"/b, at: 0.5":        {"/b, at: 1e9", "is more than"},
		", at: 0 1 1.2":      {", at: 0.5", "the instants are all the same"},
		"at: 0 1 1.2":        {"at: 0 2591999", "more than a century"},
		"load:":              {"order: interleaved\nload:", "a recording is of one load"},
	} {
		text := strings.NewReplacer("%RATE", map[bool]string{true: ", rate: [50000]"}[strings.Contains(change[0], "2591999")], "%MORE", "").Replace(recordedFile)
		if !strings.Contains(text, from) {
			t.Fatal(from)
		}
		_, err := experiment.Decode("x.yaml", []byte(strings.Replace(text, from, change[0], 1)), shipped())
		if err == nil || !strings.Contains(err.Error(), change[1]) {
			t.Errorf("%s: %v\nwant %s", change[0], err, change[1])
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
