package expect

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

// second is a second of 100 requests of which some failed, answered in ms.
func second(failed int64, ms int64) Second {
	h := hdrhistogram.New(1000, 60e9, 3)
	_ = h.RecordValues(ms*1e6, 100-failed)
	return Second{OK: 100 - failed, Status: failed, Latency: h}
}

// A fault in the 3rd second that is healed in the 5th; failures last one second longer.
var outage = Trial{
	Seconds: []Second{second(0, 10), second(0, 10), second(50, 20), second(100, 20), second(50, 20), second(1, 30), second(0, 10), second(0, 10)},
	Faults:  []Fault{{At: 2.4, Heal: 4.5, Healed: true}},
	Status:  map[string]int64{"200": 599, "503": 201},
}

func TestConditions(t *testing.T) {
	for text, want := range map[string]struct {
		ok    bool
		value float64
	}{
		"success_ratio >= 0.999 during fault": {false, 0.5},
		"success_ratio>=0.7":                  {true, 599.0 / 800},
		"error_ratio == 0% before fault":      {true, 0},
		"error_ratio < 1% after fault":        {true, 1.0 / 300},
		"status(5xx) == 0":                    {false, 201},
		"status(503) == 0 after fault":        {false, 1},
		"status(500) == 0":                    {true, 0},
		"status(4xx) == 0 during fault":       {true, 0},
		"p99 < 25ms during fault":             {true, 20},
		"p99 < 25ms after fault":              {false, 30},
		"max < 1s":                            {true, 30},
		"rate >= 100 from 6s to 8s":           {true, 100},
		"rate >= 100 before 2s":               {true, 100},
		"lost == 0 after 6s":                  {true, 0},
		"lost < 300":                          {true, 201},
		"recovers within 3s":                  {false, 3.6},
		"recovers within 4s":                  {true, 3.6},
		"recovers within 2s of heal":          {true, 1.5},
	} {
		c, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		o := c.Evaluate(outage)
		if o.Value == nil {
			t.Errorf("%s: not measured: %s", text, o.Detail)
			continue
		}
		if d := *o.Value - want.value; o.OK != want.ok || d > 0.05*want.value+1e-9 || d < -0.05*want.value-1e-9 {
			t.Errorf("%s: %v, %v (%s), want %v, %v", text, o.OK, *o.Value, o.Detail, want.ok, want.value)
		}
	}
}

// A condition that cannot be measured does not hold, and has the reason.
func TestUnmeasured(t *testing.T) {
	mixed := outage
	mixed.Status = map[string]int64{"200": 599, "503": 101, "429": 100}
	for text, c := range map[string]struct {
		trial Trial
		why   string
	}{
		"success_ratio > 0.5 during fault": {Trial{Seconds: outage.Seconds}, "no whole second"},
		"recovers within 1s":               {Trial{Seconds: outage.Seconds}, "no fault"},
		"recovers within 9s":               {Trial{Seconds: outage.Seconds[:4], Faults: outage.Faults}, "still failed"},
		"p99 < 1s after 100s":              {outage, "no whole second"},
		"p99 < 1s from 3s to 4s":           {outage, "no request was answered"},
		"status(503) == 0 after 5s":        {mixed, "not kept by the second"},
	} {
		condition := must.Get(Parse(text))(t)
		if o := condition.Evaluate(c.trial); o.OK || o.Value != nil || !strings.Contains(o.Detail, c.why) {
			t.Errorf("%s: %+v, want %q", text, o, c.why)
		}
	}
}

// 39 changes of a route that end between 10 and 12 ms, the first with failed requests, and two additions.
func changed() (all []Change) {
	for range 39 {
		all = append(all, Change{Kind: "route-changed", FirstNew: []stats.Bounded{{After: 2, Before: 4}}, LastOld: []stats.Bounded{{After: 10, Before: 12}}})
	}
	all[0].Failed, all[1].Flaps = 78, 39
	return append(all, Change{Kind: "endpoint-added", Failed: 41}, Change{Kind: "endpoint-added"})
}

func TestConditionsOfChanges(t *testing.T) {
	for text, want := range map[string]struct {
		ok    bool
		value float64
	}{
		"change.last_old.p50 < 12.5ms":             {true, 10},
		"change.last_old.p50(route-changed) < 1ms": {false, 10},
		"change.first_new.p50 <= 4ms":              {true, 2},
		"change.failed(route-changed) == 2":        {true, 2},
		"change.failed < 1":                        {false, 119. / 41},
		"change.flaps(route-changed) < 2":          {true, 1},
		"change.failed_share > 4%":                 {true, 2. / 41},
		"change.failed_share < 5%":                 {false, 0.145}, // the upper bound: 2 of 41 do not show it
		"change.failed_share < 15%":                {true, 0.145},
	} {
		c, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		o := c.Evaluate(Trial{Changes: changed()})
		if o.Value == nil {
			t.Errorf("%s: not measured: %s", text, o.Detail)
			continue
		}
		if math.Abs(*o.Value-want.value) > 0.01*want.value || o.OK != want.ok {
			t.Errorf("%s: %v, %v (%s), want %v, %v", text, o.OK, *o.Value, o.Detail, want.ok, want.value)
		}
	}
	for text, why := range map[string]string{
		"change.last_old.p99 < 1s":                  "39 changes, and it needs 1000",
		"change.first_new.p50(endpoint-added) < 1s": "0 changes, and it needs 30",
		"change.failed(endpoint-removed) == 0":      "0 changes, and it needs 1",
	} {
		c, err := Parse(text)
		must.OK(t, err)
		if o := c.Evaluate(Trial{Changes: changed()}); o.OK || o.Value != nil || o.Detail != why {
			t.Errorf("%s: %+v, want %q", text, o, why)
		}
	}
}

// The least number of changes that can show a small share agrees with what that number shows.
func TestChangesNeeded(t *testing.T) {
	for text, want := range map[string]int{"change.failed_share < 1%": 299, "change.failed_share <= 10%": 29, "change.last_old.p99 < 1s": 1000, "change.failed_share > 1%": 1} {
		c, err := Parse(text)
		must.OK(t, err)
		if _, least, about := c.Changes(); !about || least != want {
			t.Errorf("%s: %d changes, want %d", text, least, want)
		}
	}
}

// The times of a condition cover the seconds that it is measured on.
func TestTimes(t *testing.T) {
	for text, want := range map[string][][2]float64{
		"lost < 300":                        {{0, 8}},
		"p99 < 25ms during fault":           {{1, 5}},
		"error_ratio == 0% before fault":    {{0, 1}},
		"p99 < 25ms after fault":            {{5, 8}},
		"rate >= 100 from 5.5s to 7s":       {{6, 7}},
		"rate >= 100 before 2s":             {{0, 2}},
		"lost == 0 after 6s":                {{6, 8}},
		"lost == 0 after 9s":                nil,
		"recovers within 3s":                {{2.4, 5.4}},
		"recovers within 9s of heal":        {{4.5, 8}},
		"success_ratio > 0.9 from 1s to 3s": {{1, 3}},
	} {
		c := must.Get(Parse(text))(t)
		if got := c.Times(len(outage.Seconds), outage.Faults); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	two := []Fault{{At: 2, Heal: 3, Healed: true}, {At: 6, Heal: 7, Healed: true}}
	c := must.Get(Parse("p99 < 25ms during fault"))(t)
	if got := c.Times(9, two); !slices.Equal(got, [][2]float64{{1, 3}, {5, 7}}) {
		t.Errorf("during two faults: %v", got)
	}
}

func TestFailures(t *testing.T) {
	if got := outage.LongestOutage(); got != 4 {
		t.Errorf("longest outage %v s, want 4", got)
	}
	two := outage
	two.Faults = []Fault{{At: 1, Heal: 8}, {At: 2.4, Heal: 8}}
	if got, ok := two.Recovery(false); !ok || got < 3.59 || got > 3.61 {
		t.Errorf("recovery %v, %v: the first fault did nothing, the second 3.6 s", got, ok)
	}
}

// Requests that fail at random, 3 of 100, are no outage, and hide none.
func TestRandomErrorsAreNoOutage(t *testing.T) {
	random := []int64{1, 3, 2, 0, 4, 3, 1, 2, 5, 2} // of 60
	for name, c := range map[string]struct {
		more     map[int]int64
		faults   []Fault
		longest  float64
		recovers float64 // negative: no fault
	}{
		"alone":               {nil, nil, 0, -1},
		"with an outage":      {map[int]int64{4: 30, 5: 40}, nil, 2, -1},
		"most of the time":    {map[int]int64{1: 30, 2: 30, 3: 30, 4: 30, 5: 30, 6: 30}, nil, 10, -1},
		"a fault that does":   {map[int]int64{6: 30, 7: 20}, []Fault{{At: 6, Heal: 8, Healed: true}}, 2, 2},
		"a fault that is nil": {nil, []Fault{{At: 6, Heal: 8, Healed: true}}, 0, 0},
	} {
		trial := Trial{Faults: c.faults}
		for i, failed := range random {
			failed += c.more[i]
			trial.Seconds = append(trial.Seconds, Second{OK: 60 - failed, Status: failed})
		}
		if got := trial.LongestOutage(); got != c.longest {
			t.Errorf("%s: the longest outage is %v s, want %v", name, got, c.longest)
		}
		if got, ok := trial.Recovery(false); ok != (c.recovers >= 0) || ok && got != c.recovers {
			t.Errorf("%s: recovery after %v s, %v, want %v", name, got, ok, c.recovers)
		}
	}
}

func TestSyntax(t *testing.T) {
	for text, want := range map[string]struct {
		column int
		words  string
	}{
		"":                              {1, "it ends where a metric"},
		"sucess_ratio > 1":              {1, `found "sucess_ratio"`},
		"p99":                           {4, "it ends where a comparison"},
		"p99 = 5ms":                     {5, `found "="`},
		"p99 < 5":                       {7, "expected a time such as"},
		"p99 < 5ms sometimes":           {11, `found "sometimes"`},
		"p99 < 5ms during":              {17, "it ends where fault"},
		"p99 < 5ms during lunch":        {18, `found "lunch"`},
		"p99 < 5ms from 5s to 4s":       {22, "a time after 5s"},
		"p99 < 5ms before 0s":           {18, "a time above 0"},
		"success_ratio > 99":            {17, "a ratio from 0 to 1"},
		"lost < 5%":                     {8, "without %"},
		"status(teapot) == 0":           {8, "a status such as"},
		"recovers in 3s":                {10, "expected within"},
		"recovers within soon":          {17, "a time such as"},
		"recovers within 3s of the end": {23, "fault or heal"},
		"recovers within 3s now":        {20, `found "now"`},
		"change.last_old.p98 < 1s":      {1, `found "change.last_old.p98"`},
		"change.last_old.p99(x < 1s":    {1, `found "change.last_old.p99(x"`},
		"change.last_old.p99 < 5":       {23, "expected a time such as"},
		"change.failed_share(x) < 5":    {26, "a ratio from 0 to 1"},
		"change.failed < 5 after 5s":    {19, "expected the end"},
	} {
		_, err := Parse(text)
		var syntax strict.Problem
		if !errors.As(err, &syntax) || syntax.Column != want.column || !strings.Contains(syntax.Message, want.words) {
			t.Errorf("%q: %+v, want column %d, %q", text, err, want.column, want.words)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"success_ratio >= 0.999 during fault", "status(5xx) == 0", "recovers within 3s of heal", "p99 < 1ms from 1s to 2s", "é≥<=>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			var syntax strict.Problem
			if !errors.As(err, &syntax) || syntax.Column < 1 || syntax.Column > len(text)+1 {
				t.Fatalf("%q: %+v", text, err)
			}
			return
		}
		c.Evaluate(outage)
	})
}
