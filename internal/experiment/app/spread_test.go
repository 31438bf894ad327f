package app

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

func TestDistributions(t *testing.T) {
	const n = 20_000
	for text, want := range map[string]struct{ mean, median, low, high float64 }{ // ms
		"10ms":                       {10, 10, 10, 10},
		"0":                          {0, 0, 0, 0},
		"uniform(5ms, 20ms)":         {12.5, 12.5, 5, 20},
		"exponential(10ms)":          {10, 10 * math.Ln2, 0, 1000},
		"lognormal(10ms, 0.5)":       {10 * math.Exp(0.125), 10, 0, 1000},
		"buckets(0s, 10ms)":          {5, -1, 0, 10},
		"buckets(0s:9, 1s:1)":        {100, 0, 0, 1000},
		"buckets( 1ms:0, 2ms : 2.5)": {2, 2, 2, 2},
	} {
		var d Times
		if err := d.UnmarshalScalar(text); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var all []float64
		sum := 0.0
		for range n {
			x := float64(d.Draw()) / float64(time.Millisecond)
			all, sum = append(all, x), sum+x
		}
		slices.Sort(all)
		if mean := sum / n; math.Abs(mean-want.mean) > 0.1*want.mean {
			t.Errorf("%s: mean %v, want %v", text, mean, want.mean)
		}
		if median := all[n/2]; want.median >= 0 && math.Abs(median-want.median) > 0.1*want.median {
			t.Errorf("%s: median %v, want %v", text, median, want.median)
		}
		if all[0] < want.low || all[n-1] > want.high {
			t.Errorf("%s: from %v to %v", text, all[0], all[n-1])
		}
	}
}

func TestRefusedDistributions(t *testing.T) {
	for _, text := range []string{"", "5", "-1ms", "2m", "uniform(1ms)", "uniform(2ms, 1ms)", "normal(1ms)", "uniform(1ms, 2ms", "buckets()", "buckets(1ms:0)",
		"buckets(1ms:-1, 2ms:3)", "lognormal(1ms, x)", "lognormal(1ms, 11)", "exponential(1ms, 2ms)", "uniform(1ms, 2ms))", "buckets(" + strings.Repeat("1ms,", 2000) + "1ms)"} {
		var d Times
		if err := d.UnmarshalScalar(text); err == nil {
			t.Errorf("%.40s: accepted as %v", text, d)
		}
	}
	var s Sizes
	for _, text := range []string{"1.5", "2GiB", "uniform(1ms, 2ms)", "x"} {
		if err := s.UnmarshalScalar(text); err == nil {
			t.Errorf("%s: accepted as %v", text, s)
		}
	}
}

// What an instance is written as is read as the same.
func TestInstanceRoundTrip(t *testing.T) {
	const text = `{"name":"s","protocol":"grpc","responseSize":"uniform(1KiB, 2KiB)","time":"100ms","cpu":"1ms","memory":4096,` +
		`"errors":{"ratio":0.5},"calls":[{"service":"b","urls":["http://127.0.0.1:1/"],"protocol":"grpc","requestSize":5,"timeout":"1s"},{"wait":"exponential(1ms)"}]}`
	i := must.Get(DecodeInstance("t", []byte(text)))(t)
	b, err := json.Marshal(i)
	if err != nil || string(b) != text {
		t.Errorf("%v\n%s\n%s", err, b, text)
	}
}

func FuzzDecodeInstance(f *testing.F) {
	f.Add([]byte(`{"name": "s", "responseSize": "uniform(1KiB, 4KiB)"}`), []byte(`{"time": "exponential(1ms)", "calls": [{"wait": "1ms"}]}`))
	f.Add([]byte("name: s\nredirects: {\"//\": /}\nerrors: {ratio: 0.5}\n"), []byte(`{"errors": null}`))
	f.Add([]byte(`{"name": "s", "calls": [{"urls": ["http://127.0.0.1:1/"], "headers": {"x-a": "b"}}]}`), []byte(`{"calls": []}`))
	f.Fuzz(func(t *testing.T, data, patch []byte) {
		i, err := DecodeInstance("fuzz", data)
		if err != nil {
			return
		}
		written := must.Get(json.Marshal(i))(t)
		again, err := DecodeInstance("written", written)
		if err != nil {
			t.Fatalf("%s is written as %s, which is refused: %v", data, written, err)
		}
		if second, _ := json.Marshal(again); string(second) != string(written) {
			t.Fatalf("%s becomes %s", written, second)
		}
		if same, err := PatchInstance(i, "fuzz", []byte("{}")); err != nil {
			t.Fatal(err)
		} else if b, _ := json.Marshal(same); string(b) != string(written) {
			t.Fatalf("an empty patch makes %s of %s", b, written)
		}
		if p, err := PatchInstance(i, "fuzz", patch); err == nil {
			if d := p.Time.Draw(); d < 0 || d > MaxTime {
				t.Fatalf("drew %v", d)
			}
			if n := p.ResponseSize.Draw(); n < 0 || n > MaxSize {
				t.Fatalf("drew %d", n)
			}
		}
	})
}
