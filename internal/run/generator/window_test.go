package generator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func has(warnings []string, part string) bool {
	return strings.Contains(strings.Join(warnings, "\n"), part)
}

// tenASecond returns a run of 1 s warm-up, 2 s measure and 1 s tail at 10 requests/s.
// Each request takes 2 ms. The 25th gets a 503 and the 15th no response.
func tenASecond() Outcome {
	o := Outcome{Generator: "vegeta", Started: time.Unix(1000, 0)}
	for k := range 40 {
		r := Record{At: time.Duration(k) * 100 * time.Millisecond, Late: unknown, Service: 2 * time.Millisecond,
			Response: unknown, Seq: uint64(k), Code: 200, Size: 10}
		switch k {
		case 25:
			r.Code = 503
		case 15:
			r.Code, r.Error, r.Service = 0, "timeout", time.Second
		case 20:
			r.At += 30 * time.Millisecond // sent late
		}
		r.Done = r.At + r.Service
		o.Records = append(o.Records, r)
	}
	return o
}

func windowProfile(t *testing.T) load.Profile {
	return load.Profile{Targets: []string{"http://127.0.0.1:1/"}, Rate: 10, Connections: 2, Start: time.Unix(1000, 0),
		Warmup: time.Second, Measure: 2 * time.Second, Tail: time.Second, ExpectSize: 10, HDRPath: filepath.Join(t.TempDir(), "latency.hdr")}
}

func TestTheMeasureWindowIsCutOut(t *testing.T) {
	p, o := windowProfile(t), tenASecond()
	o.scheduled(10)
	l := must.Get(vegetaTraits.result(o, p))(t)
	if d := difftest.Of("l.Intended", l.Intended, 20, "l.Sent", l.Sent, 20, "l.Completed", l.Completed, 19, "l.BytesIn", l.BytesIn, 190); d != "" {
		t.Errorf("%s: intended %d sent %d completed %d bytes %d, want 20 20 19 190", d, l.Intended, l.Sent, l.Completed, l.BytesIn)
	}
	if d := difftest.Of(`l.Classes["2xx"]`, l.Classes["2xx"], 18, `l.Classes["status"]`, l.Classes["status"], 1, `l.Classes["timeout"]`, l.Classes["timeout"], 1, `l.Statuses["503"]`, l.Statuses["503"], 1, `l.Errors["timeout"]`, l.Errors["timeout"], 1); d != "" {
		t.Errorf("%s: classes %v statuses %v errors %v", d, l.Classes, l.Statuses, l.Errors)
	}
	if l.LatenessMaxUS == nil || *l.LatenessMaxUS != 30000 || *l.LatenessP50US != 0 {
		t.Errorf("lateness p50 %v max %v, want 0 and 30 ms", l.LatenessP50US, l.LatenessMaxUS)
	}
	if !l.Start.Equal(time.Unix(1001, 0)) || !l.End.Equal(time.Unix(1003, 0)) {
		t.Errorf("window %v to %v", l.Start, l.End)
	}
	if i := indexOf(l.Published, ofResponse); i < 0 || l.Published[i].Meaning == "" {
		t.Errorf("published %+v", l.Published)
	} else if d := difftest.Of("*l.Published[i].MaxMS", *l.Published[i].MaxMS, 32, "l.Published[i].Count", l.Published[i].Count, 18); d != "" {
		t.Errorf("%s: published %+v", d, l.Published)
	}
	f := must.Get(os.Open(p.HDRPath))(t)
	defer f.Close()
	got := map[int]map[string]int64{}
	must.OK(t, hdrlog.ReadSeconds(f, func(second int, tag string, h *hdrhistogram.PackedHistogram) error {
		if got[second] == nil {
			got[second] = map[string]int64{}
		}
		got[second][tag] += h.TotalCount()
		return nil
	}))
	if len(got) != 4 {
		t.Errorf("log by second %v", got)
	} else if d := difftest.Of(`got[1]["response.2xx"]`, got[1]["response.2xx"], 9, `got[1]["response.timeout"]`, got[1]["response.timeout"], 1, `got[2]["service.status"]`, got[2]["service.status"], 1, `got[2]["lateness"]`, got[2]["lateness"], 10, `got[3]["response.2xx"]`, got[3]["response.2xx"], 10); d != "" {
		t.Errorf("%s: log by second %v", d, got)
	}
}

func TestARequestOfTheWrongSizeIsNone(t *testing.T) {
	p, o := windowProfile(t), tenASecond()
	p.ExpectSize = 11
	l, err := vegetaTraits.result(o, p)
	if err != nil || l.Classes["2xx"] != 0 || l.Classes["status"] != 19 {
		t.Errorf("classes %v, %v", l.Classes, err)
	}
}

// TestRecordsOfALaterStart checks that record times are converted to the profile's clock.
func TestRecordsOfALaterStart(t *testing.T) {
	p, o := windowProfile(t), tenASecond()
	o.Started = o.Started.Add(500 * time.Millisecond)
	l, err := vegetaTraits.result(o, p)
	if err != nil {
		t.Errorf("sent %d statuses %v, %v", l.Sent, l.Statuses, err)
	} else if d := difftest.Of("l.Sent", l.Sent, 20, `l.Statuses["200"]`, l.Statuses["200"], 19, `l.Errors["timeout"]`, l.Errors["timeout"], 1); d != "" {
		t.Errorf("%s: sent %d statuses %v, %v", d, l.Sent, l.Statuses, err)
	}
	o.Started = o.Started.Add(time.Hour)
	if l, err = vegetaTraits.result(o, p); err != nil || l.Sent != 0 || !has(l.Warnings, "none of the 40 requests") {
		t.Errorf("sent %d, warnings %v, %v", l.Sent, l.Warnings, err)
	}
}

func TestOneFigureForTheWholeRunIsShared(t *testing.T) {
	p := windowProfile(t)
	p.ExpectSize = -1
	o := Outcome{Generator: "fortio", Elapsed: 4 * time.Second, Statuses: map[string]int64{"200": 400, "503": 1}, Errors: map[string]int64{"timeout": 10}}
	l := must.Get(fortioTraits.result(o, p))(t)
	if d := difftest.Of(`l.Classes["2xx"]`, l.Classes["2xx"], 200, `l.Classes["status"]`, l.Classes["status"], 1, `l.Classes["timeout"]`, l.Classes["timeout"], 5, "l.Completed", l.Completed, 201, "l.Sent", l.Sent, 206); d != "" {
		t.Errorf("%s: %v completed %d sent %d", d, l.Classes, l.Completed, l.Sent)
	}
	if l.Loop != "paced" || !has(l.Warnings, "take in warm-up and tail") || !has(l.Warnings, "a slow server slows the load") {
		t.Errorf("loop %s, warnings %q", l.Loop, l.Warnings)
	}
	if _, err := os.Stat(p.HDRPath); err == nil {
		t.Error("there is an interval log without a record of requests")
	}
}

func TestWhatIsDueAndAbsentIsAnError(t *testing.T) {
	p, o := windowProfile(t), tenASecond()
	p.Rate, o.Partial = 20, true // 80 were due, 40 are recorded, 2 may be aborted
	l, err := ohaTraits.result(o, p)
	if err != nil {
		t.Errorf("intended %d errors %v classes %v, %v", l.Intended, l.Errors, l.Classes, err)
	} else if d := difftest.Of("l.Intended", l.Intended, 40, `l.Errors["due, and not in the output"]`, l.Errors["due, and not in the output"], 19, `l.Classes["conn"]`, l.Classes["conn"], 19); d != "" {
		t.Errorf("%s: intended %d errors %v classes %v, %v", d, l.Intended, l.Errors, l.Classes, err)
	}
}

func TestRealOutputsAreCut(t *testing.T) {
	for _, c := range []struct {
		g    Generator
		file string
		rate float64
		sent [2]int64
	}{
		{external{traits: ohaTraits}, "oha-1.16.0.csv", 100, [2]int64{95, 105}},
		{external{traits: vegetaTraits}, "vegeta-12.12.0.bin", 30, [2]int64{28, 32}},
	} {
		f := must.Get(os.Open(filepath.Join("testdata", c.file)))(t)
		p := windowProfile(t)
		p.Start, p.Rate, p.Warmup, p.Measure, p.Tail, p.ExpectSize = time.Time{}, c.rate, 400*time.Millisecond, time.Second, 100*time.Millisecond, -1
		l, err := c.g.Parse(f, p, nil)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", c.file, err)
		}
		if l.Sent < c.sent[0] || l.Sent > c.sent[1] || l.Classes["2xx"] < c.sent[0] {
			t.Errorf("%s: %d sent, classes %v, want %v", c.file, l.Sent, l.Classes, c.sent)
		}
		if _, err := os.Stat(p.HDRPath); err != nil {
			t.Errorf("%s: %v", c.file, err)
		}
		if l.Published == nil || l.Published[0].Meaning == "" {
			t.Errorf("%s: published %+v", c.file, l.Published)
		}
	}
}

func TestAnIntervalLogThatCannotBeWrittenIsAnError(t *testing.T) {
	p, o := windowProfile(t), tenASecond()
	p.HDRPath = filepath.Join(t.TempDir(), "no", "such", "dir")
	if _, err := vegetaTraits.result(o, p); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
