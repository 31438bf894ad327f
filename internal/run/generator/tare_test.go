package generator

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func TestTareCommandCarriesTheProfile(t *testing.T) {
	p := load.Profile{Targets: []string{"http://127.0.0.1:8080/"}, Rate: 100, Connections: 4, Measure: time.Second, ExpectSize: -1}
	c := must.Get(Tare{Agent: "/opt/tare-agent"}.Command(p))(t)
	b := must.Get(io.ReadAll(c.Stdin))(t)
	var got load.Profile
	must.OK(t, json.Unmarshal(b, &got))
	if len(c.Args) != 1 {
		t.Errorf("%s %q with %s", c.Path, c.Args, b)
	} else if d := difftest.Of("c.Path", c.Path, "/opt/tare-agent", "c.Args[0]", c.Args[0], "load", "got.Targets[0]", got.Targets[0], p.Targets[0], "got.Rate", got.Rate, 100, "got.ExpectSize", got.ExpectSize, -1); d != "" {
		t.Errorf("%s: %s %q with %s", d, c.Path, c.Args, b)
	}
	if _, err := (Tare{}).Command(load.Profile{}); err == nil {
		t.Error("an empty profile is accepted")
	}
}

func TestTareParse(t *testing.T) {
	start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	report := load.Report{
		Version: "v1", Loop: "open", Arrivals: "poisson", Started: start, MeasureStart: start.Add(2 * time.Second), MeasureEnd: start.Add(12 * time.Second),
		Intended: 10, Sent: 9, Completed: 8, Classes: map[load.Class]int64{load.OK: 7, load.Conn: 1},
		Statuses: map[string]int64{"200": 7}, Errors: map[string]int64{"reset": 1}, BytesIn: 1, BytesOut: 2, CPUSeconds: 0.5, ThreadCPURatio: 0.1,
		LatenessUS: load.Quantiles{Count: 9, P50: 1, P99: 2, Max: 3}, OwnLatenessUS: load.Quantiles{Count: 9, P99: 1.5}, Verdict: "ok",
	}
	var out strings.Builder
	e := json.NewEncoder(&out)
	for i := range 3 {
		_ = e.Encode(load.Line{Progress: &load.Progress{Second: i}})
	}
	_ = e.Encode(load.Line{Report: &report})
	var seconds []int
	l := must.Get(Tare{}.Parse(strings.NewReader(out.String()), load.Profile{Rate: 100, Connections: 4}, func(p load.Progress) { seconds = append(seconds, p.Second) }))(t)
	if d := difftest.Of("len(seconds)", len(seconds), 3, "l.AskedRate", l.AskedRate, 100, "l.Connections", l.Connections, 4, "l.WarmupSeconds", l.WarmupSeconds, 2, "l.MeasureSeconds", l.MeasureSeconds, 10, `l.Classes["2xx"]`, l.Classes["2xx"], 7, `l.Classes["conn"]`, l.Classes["conn"], 1, "*l.LatenessP99US", *l.LatenessP99US, 2, "*l.OwnLatenessP99US", *l.OwnLatenessP99US, 1.5, "*l.CPUSeconds", *l.CPUSeconds, 0.5, "l.Completed", l.Completed, 8); d != "" {
		t.Errorf("%s: %v %+v", d, seconds, l)
	}
	if _, err := (Tare{}).Parse(strings.NewReader(`{"progress":{"second":1}}`), load.Profile{}, nil); err == nil {
		t.Error("an output without a report is accepted")
	}
	must.Fail(t, must.Err((Tare{}).Parse(strings.NewReader("panic: no\n"), load.Profile{}, nil)), "panic: no", "garbage")
}

func FuzzTareParse(f *testing.F) {
	f.Add(`{"progress":{"second":1}}` + "\n" + `{"report":{"engine":"epoll","verdict":"ok"}}`)
	f.Fuzz(func(_ *testing.T, out string) {
		_, _ = Tare{}.Parse(strings.NewReader(out), load.Profile{}, func(load.Progress) {})
	})
}
