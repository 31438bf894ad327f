package importer

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
)

// importFile imports a file with a content.
func importFile(t *testing.T, generator, name, content string) *Trial {
	t.Helper()
	path := must.File(t, t.TempDir(), name, content)
	return &read(t, generator, path).Trials[0]
}

// read imports files or directories of a generator.
func read(t *testing.T, generator string, paths ...string) *Study {
	t.Helper()
	i := slices.IndexFunc(Generators(), func(s Source) bool { return s.Name == generator })
	s := must.Get(Generators()[i].Read(paths, Options{}))(t)
	return s
}

// line has the figures of a trial that a wrong count would change.
func line(tr *Trial) string {
	if tr.Record.Error != "" {
		return "failed: " + tr.Record.Error
	}
	l := tr.Record.Load
	words := []string{"valid"}
	if !tr.Record.Valid {
		words[0] = "invalid"
	}
	words = append(words, fmt.Sprintf("%d of %d answered in %.4g s", l.Completed, l.Intended, l.MeasureSeconds))
	for _, class := range slices.Sorted(maps.Keys(l.Classes)) {
		words = append(words, fmt.Sprintf("%s=%d", class, l.Classes[class]))
	}
	for _, d := range l.Published {
		for _, q := range d.Quantiles {
			words = append(words, fmt.Sprintf("p%.4g=%g", 100*q.Q, q.MS))
		}
	}
	return strings.Join(words, " ")
}

// A request without a response, or without a status, is never 2xx, and a complete output is never refused.
func TestFiguresOfOutputs(t *testing.T) {
	file := func(name string) string {
		b := must.Get(os.ReadFile(filepath.Join("testdata/figures", name)))(t)
		if strings.HasSuffix(name, ".gz") {
			unpacked, err := gzip.NewReader(bytes.NewReader(b))
			if err == nil {
				b, err = io.ReadAll(unpacked)
			}
			must.OK(t, err)
		}
		return string(b)
	}
	wrk := func(requests, timeouts int) string {
		return strings.NewReplacer("20 requests in 6.01s", fmt.Sprint(requests, " requests in 6.00s"), "timeout 20", fmt.Sprint("timeout ", timeouts),
			"0.00us", "5.00ms", "3.33", fmt.Sprintf("%.2f", float64(requests)/6)).Replace(file("wrk-all-timeouts.txt"))
	}
	nighthawk := `{"options":{"requests_per_second":1000,"connections":4,"concurrency":"2","open_loop":false},"results":[{"name":"w0"},{"name":"w1"},{"name":"global","statistics":[],"counters":[{"name":"benchmark.http_2xx","value":"500"}],"execution_duration":"10s"}]}`
	for _, test := range []struct{ generator, name, content, want string }{
		{"vegeta", "report.json", file("vegeta-all-refused.report.json"), "invalid 0 of 100 answered in 1.981 s conn=100"},
		{"vegeta", "report.txt", file("vegeta-all-refused.report.txt"), "invalid 0 of 100 answered in 1.981 s conn=100"},
		{"oha", "a.json", file("oha-all-refused.json"), "invalid 0 of 100 answered in 2 s conn=100"},
		{"fortio", "a.json", file("fortio-all-refused.json"), "invalid 0 of 100 answered in 2 s conn=100"},
		{"fortio", "old.json", strings.ReplaceAll(file("fortio-all-refused.json"), `"-1":100`, `"-1":60,"503":40`), "invalid 40 of 100 answered in 2 s conn=60 status=40"},
		// Without statuses, the classes are unknown.
		{"fortio", "none.json", strings.ReplaceAll(file("fortio-max.json"), `"RetCodes":{"200":100},`, ""), "valid 100 of 100 answered in 2 s p50=0.5 p99=0.99"},
		// vegeta's rate is of the 0.99 s of the attack, and the last response came after 5.112 s.
		{"vegeta", "slow.json", file("vegeta-slow-last-answers.report.json"), "valid 100 of 100 answered in 5.112 s 2xx=100 p50=3000 p90=4000 p95=4050 p99=4100"},
		// oha's rate is of 600 requests: 100 of them were aborted by its deadline.
		{"oha", "deadline.json", file("oha-deadline.json"), "valid 500 of 500 answered in 10 s 2xx=500 p10=1700 p25=1800 p50=2000 p75=2200 p90=2300 p95=2350 p99=2390 p99.9=2400 p99.99=2400"},
		{"fortio", "max.json", file("fortio-max.json"), "valid 100 of 100 answered in 2 s 2xx=100 p50=0.5 p99=0.99"},
		{"fortio", "nighthawk.json", file("fortio-nighthawk-string-counts.json"), "valid 100 of 100 answered in 2 s 2xx=100 p50=0.5 p99=0.99"},
		// wrk 4 records no latency of responses after its timeout, and counts them as requests.
		{"wrk", "all.txt", file("wrk-all-timeouts.txt"), "invalid 20 of 20 answered in 6.006 s timeout=20"},
		{"wrk", "half.txt", wrk(600, 300), "valid 600 of 600 answered in 6 s 2xx=300 timeout=300 p25=5 p37.5=5 p45=5 p49.5=5"},
		{"wrk", "bounds.txt", wrk(60000, 54), "valid 60000 of 60000 answered in 6 s 2xx=59946 timeout=54 p50=5 p75=5 p90=5 p99=5"},
		{"wrk", "few.txt", wrk(60000, 6), "valid 60000 of 60000 answered in 6 s 2xx=59994 timeout=6 p50=5 p75=5 p90=5 p99=5"},
		{"k6", "lines.json", k6Lines, "valid 2 of 3 answered in 2 s 2xx=1 conn=1 status=1"},
		{"hey", "hey.txt", heyText, "valid 198 of 200 answered in 2 s 2xx=190 status=8 timeout=2 p10=2 p50=9 p99=25"},
		// Of the programs themselves, two users: 40 answers with 200, 40 with 404, 40 refused connections.
		{"k6", "k6.json", file("k6-1.8.1.json.gz"), "valid 80 of 120 answered in 0.1213 s 2xx=40 conn=40 status=40"},
		{"fortio", "oha.json", ohaSeed, "failed: read FILE: this is an output of oha, not of fortio"},
		{"hey", "oha.txt", ohaText, "failed: read FILE: this is an output of oha, not of hey"},
		{"vegeta", "hey.txt", heyText, "failed: read FILE: this is an output of hey, not of vegeta"},
		{"vegeta", "other.txt", "Running 10s test\n300 requests in 1s\n", "failed: read FILE:1: read output of vegeta: it is neither a report nor results in gob or JSON"},
		{"wrk2", "wrk.txt", wrkSeed, "failed: read FILE:1: read output of wrk2: this is the output of wrk"},
		{"oha", "oha.txt", ohaText, "valid 500 of 500 answered in 40.39 s 2xx=500 p10=604.2 p50=800 p99=1179.8"},
		// Of servers that counted 240 answers 200, 30 answers 404 and 30 answers 503.
		{"k6", "real.txt", file("k6-1.8.1.txt"), "valid 300 of 300 answered in 0.3065 s 2xx=240 status=60 p50=2.84 p90=3.37 p95=7.61"},
		{"k6", "legacy.txt", file("k6-1.8.1-legacy.txt"), "valid 300 of 300 answered in 0.5171 s 2xx=240 status=60 p50=3.12 p90=13.01 p95=20.2"},
		{"k6", "new.txt", k6Text, "valid 101 of 101 answered in 3.163 s 2xx=98 status=3 p50=0.2908 p90=0.3924 p95=1.2"},
		{"k6", "old.txt", strings.Replace(k6Text, "3 out of 101", "✓ 3 ✗ 98", 1), "valid 101 of 101 answered in 3.163 s 2xx=98 status=3 p50=0.2908 p90=0.3924 p95=1.2"},
		{"hey", "million.txt", heyMillion, "valid 1500000 of 1500000 answered in 60 s 2xx=1500000 p10=0.7 p50=1.1 p99=4.2"},
		// A rate that was not reached is a result. Nighthawk's is of each of 2 workers.
		{"nighthawk", "unreached.json", nighthawk, "valid 500 of 500 answered in 10 s 2xx=500"},
		{"fortio", "unreached.json", strings.Replace(file("fortio-max.json"), `"max"`, `"900"`, 1), "valid 100 of 100 answered in 2 s 2xx=100 p50=0.5 p99=0.99"},
	} {
		tr := importFile(t, test.generator, test.name, test.content)
		if got := strings.ReplaceAll(line(tr), tr.Files[0], "FILE"); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write([]byte(test.content))
		_ = z.Close()
		zipped := importFile(t, test.generator, test.name+".gz", packed.String())
		if got := strings.ReplaceAll(line(zipped), zipped.Files[0], "FILE"); got != test.want {
			t.Errorf("%s.gz:\n got %s\nwant %s", test.name, got, test.want)
		}
		switch {
		case test.name == "lines.json" && !tr.Record.Started.Equal(time.Date(2024, 5, 1, 10, 0, 1, 0, time.UTC)):
			t.Errorf("started %v", tr.Record.Started)
		case test.name == "oha.txt" && test.generator == "oha" && tr.Record.Load.BytesIn != 156938:
			t.Errorf("%d bytes, and 153.26 KiB are 156938", tr.Record.Load.BytesIn)
		case test.name == "max.json" && (float64(tr.Rate) != 0 || tr.Record.Load.Loop != "closed" || tr.Record.Started.Year() != 2024):
			t.Errorf("rate %v, loop %s, started %v", tr.Rate, tr.Record.Load.Loop, tr.Record.Started)
		case test.generator == "nighthawk" && (float64(tr.Rate) != 2000 || tr.Connections != 8):
			t.Errorf("rate %v, %d connections", tr.Rate, tr.Connections)
		}
	}
}
