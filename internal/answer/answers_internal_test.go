package answer

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// Treatments whose clients get other answers are named. Answers that vary within a treatment are not compared.
func TestAnswersDiffer(t *testing.T) {
	size := func(n int64) *int64 { return &n }
	kind := func(s string) *string { return &s }
	page := check.Answer{Request: "GET /", Probes: 20, Status: "200", Bytes: size(49), ContentType: kind("text/html"), SHA256: "aaaaaaaaaa"}
	with := func(change func(*check.Answer)) check.Answer {
		a := page
		change(&a)
		return a
	}
	loaded := func(status string, bytes int64) *result.Load {
		return &result.Load{Statuses: map[string]int64{status: 99, "503": 1}, BytesIn: 100 * bytes}
	}
	arrived := []check.Check{{Name: "arrivals through the gateway", OK: true}}
	type trials []result.Record
	probed := func(all ...check.Answer) (rs trials) {
		for _, a := range all {
			rs = append(rs, result.Record{Valid: true, Answers: []check.Answer{a}, Load: loaded("200", 200)})
		}
		return rs
	}
	for name, tc := range map[string]struct {
		none, envoy trials
		levels      experiment.Levels // of envoy
		want        string            // empty: no warning
	}{
		"the same":          {none: probed(page, page), envoy: probed(page, page)},
		"length":            {none: probed(page), envoy: probed(with(func(a *check.Answer) { a.Bytes = size(198795) })), want: "GET / has other answers in envoy (198795 bytes) than in none (49 bytes)"},
		"status":            {none: probed(page), envoy: probed(with(func(a *check.Answer) { a.Status = "302" })), want: "status 302"},
		"type":              {none: probed(page), envoy: probed(with(func(a *check.Answer) { a.ContentType = kind("") })), want: `(Content-Type "") than in none (Content-Type "text/html")`},
		"content":           {none: probed(page, page), envoy: probed(with(func(a *check.Answer) { a.SHA256 = "b" }), with(func(a *check.Answer) { a.SHA256 = "b" })), want: "content b"},
		"content of a pair": {none: probed(page), envoy: probed(with(func(a *check.Answer) { a.SHA256 = "b" }))},
		"varies":            {none: probed(page, with(func(a *check.Answer) { a.Bytes, a.SHA256 = size(50), "c" })), envoy: probed(with(func(a *check.Answer) { a.Bytes, a.SHA256 = size(51), "b" }))},
		"another request":   {none: probed(page), envoy: probed(with(func(a *check.Answer) { a.Request, a.Status = "GET /x", "404" }))},
		"another route":     {none: probed(page), envoy: probed(with(func(a *check.Answer) { a.Bytes = size(1) })), levels: experiment.Levels{Route: "/x"}},
		"status under load": {none: trials{{Valid: true, Load: loaded("200", 200)}}, envoy: trials{{Valid: true, Load: loaded("204", 200)}}, want: "(status 204) than in none (status 200)"},
		"bytes under load": {none: probed(page), envoy: trials{{Valid: true, Answers: []check.Answer{page}, Load: loaded("200", 2000)}},
			want: "the load had other answers in envoy (2000 bytes with headers) than in none (200 bytes)"},
		"headers of a proxy": {none: probed(page), envoy: trials{{Valid: true, Answers: []check.Answer{page}, Load: loaded("200", 500)}}},
		"a translation":      {none: probed(page), envoy: trials{{Valid: true, Checks: arrived, Answers: []check.Answer{with(func(a *check.Answer) { a.Bytes = size(900) })}, Load: loaded("200", 2000)}}},
		"status of a translation": {none: probed(page), envoy: trials{{Valid: true, Checks: arrived, Load: loaded("201", 2000)}},
			want: "(status 201) than in none (status 200)"},
		"a failed trial": {none: probed(page), envoy: trials{{Error: "it ended", Answers: []check.Answer{with(func(a *check.Answer) { a.Status = "500" })}}}},
	} {
		d := &compare.Run{Plan: plan.Plan{Treatments: []plan.Treatment{{ID: "none"}, {ID: "envoy", Baseline: "none", Levels: tc.levels}}}}
		for id, all := range map[string]trials{"none": tc.none, "envoy": tc.envoy} {
			for _, r := range all {
				r.Treatment = id
				d.Records = append(d.Records, r)
			}
		}
		got := answersDiffer(d)
		if (len(got) == 1) != (tc.want != "") || len(got) > 0 && !strings.Contains(got[0].Message, tc.want) {
			t.Errorf("%s: got %+v, want %q", name, got, tc.want)
		}
	}
}
