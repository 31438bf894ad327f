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

	"github.com/tare-mesh/tare/test/must"
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
		// Of the programs themselves, two users: 40 answers with 200, 40 with 404, 40 refused connections.
		{"k6", "k6.json", file("k6-1.8.1.json.gz"), "valid 80 of 120 answered in 0.1213 s 2xx=40 conn=40 status=40"},
		{"fortio", "oha.json", ohaSeed, "failed: read FILE: this is an output of oha, not of fortio"},
		{"vegeta", "other.txt", "Running 10s test\n300 requests in 1s\n", "failed: read FILE:1: read output of vegeta: it is neither a report nor results in gob or JSON"},
		{"wrk2", "wrk.txt", wrkSeed, "failed: read FILE:1: read output of wrk2: this is the output of wrk"},
		{"oha", "oha.txt", "Summary:\n  Success rate: 100.00%\n", "failed: read FILE:1: read output of oha: it is a text, without the counts of its latencies"},
		{"k6", "k6.txt", "    http_reqs......................: 101   31.93/s\n", "failed: read FILE:1: read output of k6: it is a text, with rounded figures"},
		// A rate that was not reached is a result.
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
		case test.name == "max.json" && (float64(tr.Rate) != 0 || tr.Record.Load.Loop != "closed" || tr.Record.Started.Year() != 2024):
			t.Errorf("rate %v, loop %s, started %v", tr.Rate, tr.Record.Load.Loop, tr.Record.Started)
		}
	}
}
