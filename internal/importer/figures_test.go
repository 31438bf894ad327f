package importer

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
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
		{"k6", "all.csv", k6CSV, "valid 2 of 3 answered in 2.5 s 2xx=1 status=1 timeout=1"},
		{"hey", "hey.csv", heyCSV, "valid 3 of 3 answered in 3 s 2xx=2 status=1"},
		{"hey", "hey.txt", heyText, "valid 198 of 200 answered in 2 s 2xx=190 status=8 timeout=2 p10=2 p50=9 p99=25"},
		// Of the programs themselves, two users: 40 answers with 200, 40 with 404, 40 refused connections.
		{"k6", "k6.json", file("k6-1.8.1.json.gz"), "valid 80 of 120 answered in 0.1213 s 2xx=40 conn=40 status=40"},
		{"jmeter", "jmeter.csv", file("jmeter-5.6.3.csv"), "valid 80 of 120 answered in 0.438 s 2xx=40 conn=40 status=40"},
		{"jmeter", "a.jtl", jmeterSeed, "valid 3 of 4 answered in 3.5 s 2xx=2 status=1 timeout=1"},
		{"fortio", "results.xml", `<?xml version="1.0"?><testResults version="1.2">`, "failed: read FILE: this is an output of jmeter, not of fortio"},
		{"fortio", "oha.json", ohaSeed, "failed: read FILE: this is an output of oha, not of fortio"},
		{"hey", "oha.txt", ohaText, "failed: read FILE: this is an output of oha, not of hey"},
		{"vegeta", "ab.txt", file("ab-2.3.txt"), "failed: read FILE: this is an output of ab, not of vegeta"},
		{"vegeta", "autocannon.txt", file("autocannon-9.txt"), "failed: read FILE:1: read output of vegeta: it is neither a report nor results in gob, JSON or CSV"},
		{"locust", "x_failures.csv", file("locust-2.47_failures.csv"), "failed: read FILE: this is a list of Locust's failures, exceptions or seconds, and no output of a load generator"},
		{"gatling", "simulation.log", "\x00\x00\x00\x00\x063.13.1\x00", "failed: read FILE: this is a binary simulation log of Gatling 3.12 or later, and no output of a load generator"},
		{"wrk2", "wrk.txt", wrkSeed, "failed: read FILE:1: read output of wrk2: this is the output of wrk"},
		// Of servers that counted 240 answers 200, 30 answers 404 and 30 answers 503.
		{"ab", "ab.txt", file("ab-2.3.txt"), "valid 300 of 300 answered in 0.24 s 2xx=240 status=60 p50=3 p66=3 p75=3 p80=3 p90=4 p95=4 p98=4 p99=7"},
		{"h2load", "h2load.txt", file("h2load-1.52.txt"), "valid 300 of 300 answered in 0.3751 s 2xx=240 status=60"},
		{"bombardier", "b.json", file("bombardier-2.json"), "valid 300 of 300 answered in 0.2363 s 2xx=240 status=60 p50=2.552 p75=2.669 p90=4.764 p95=5.929 p99=14.488"},
		{"autocannon", "a.json", file("autocannon-9.json"), "valid 300 of 300 answered in 1.04 s 2xx=240 status=60 p0.001=2 p0.01=2 p0.1=2 p1=2 p2.5=2 p10=2 p25=2 p50=2 p75=3 p90=4 p97.5=14 p99=16 p99.9=16 p99.99=16 p100=16"},
		// Of a server that counted 2049, 256 and 256.
		{"bombardier", "timed.txt", file("bombardier-2-timed.txt"), "valid 2561 of 2561 answered in 2 s 2xx=2049 status=512 p50=2.48 p75=2.6 p90=3.44 p95=4.89 p99=9.61"},
		{"bombardier", "requests.txt", file("bombardier-2-requests.txt"), "failed: read FILE:1: read output of bombardier: it has no duration, as the text of a test by requests: use -o json"},
		// 2814 answers in 2 s after 1 s of warm-up.
		{"h2load", "timed.txt", file("h2load-1.52-timed.txt"), "valid 2814 of 2814 answered in 2 s 2xx=2814"},
		{"autocannon", "timeouts.json", file("autocannon-9-timeouts.json"), "valid 103 of 111 answered in 3.03 s 2xx=103 timeout=8 p0.001=2 p0.01=2 p0.1=2 p1=2 p2.5=2 p10=2 p25=2 p50=2 p75=2 p90=5 p97.5=10 p99=11 p99.9=11 p99.99=11 p100=11"},
		{"artillery", "a.json", file("artillery-2.0.21.json"), "valid 198 of 200 answered in 4.759 s 2xx=163 status=35 timeout=2 p50=3 p75=5 p90=21.1 p95=34.8 p99=53 p99.9=55.2"},
		{"locust", "l_stats.csv", file("locust-2.47_stats.csv"), "valid 357 of 357 answered in 3.001 s 2xx=299 status=58 p50=3 p66=3 p75=4 p80=4 p90=5 p95=8 p98=52 p99=1000 p99.9=1000 p99.99=1000"},
		// Nobody listens.
		{"ab", "refused.txt", file("ab-2.3-refused.txt"), "invalid 0 of 200 answered in 0.009 s conn=200"},
		{"h2load", "refused.txt", file("h2load-1.52-refused.txt"), "invalid 0 of 40 answered in 0.000333 s conn=40"},
		{"bombardier", "refused.json", file("bombardier-2-refused.json"), "invalid 0 of 100 answered in 0.01019 s conn=100"},
		{"ab", "aborted.txt", file("ab-2.3-aborted.txt"), `failed: read FILE:7: it has no "Complete requests:": it was cut off, or is of another program`},
		{"oha", "oha.txt", ohaText, "valid 500 of 500 answered in 40.39 s 2xx=500 p10=604.2 p50=800 p99=1179.8"},
		{"k6", "real.txt", file("k6-1.8.1.txt"), "valid 300 of 300 answered in 0.3065 s 2xx=240 status=60 p50=2.84 p90=3.37 p95=7.61"},
		{"k6", "legacy.txt", file("k6-1.8.1-legacy.txt"), "valid 300 of 300 answered in 0.5171 s 2xx=240 status=60 p50=3.12 p90=13.01 p95=20.2"},
		{"k6", "new.txt", k6Text, "valid 101 of 101 answered in 3.163 s 2xx=98 status=3 p50=0.2908 p90=0.3924 p95=1.2"},
		{"k6", "old.txt", strings.Replace(k6Text, "3 out of 101", "✓ 3 ✗ 98", 1), "valid 101 of 101 answered in 3.163 s 2xx=98 status=3 p50=0.2908 p90=0.3924 p95=1.2"},
		{"hey", "million.txt", heyMillion, "valid 1500000 of 1500000 answered in 60 s 2xx=1500000 p10=0.7 p50=1.1 p99=4.2"},
		// JMeter's test expects 404, and its dates and delimiters are settings. All have 4 rows.
		{"jmeter", "expected.jtl", strings.ReplaceAll(jmeterGood, ",200,", ",404,"), "valid 4 of 4 answered in 2 s 2xx=4"},
		{"jmeter", "failed.jtl", strings.ReplaceAll(jmeterGood, ",true,", ",false,"), "invalid 4 of 4 answered in 2 s status=4"},
		{"jmeter", "semicolons.jtl", strings.ReplaceAll(jmeterGood, ",", ";"), "valid 4 of 4 answered in 2 s 2xx=4"},
		{"jmeter", "tabs.jtl", strings.ReplaceAll(jmeterGood, ",", "\t"), "valid 4 of 4 answered in 2 s 2xx=4"},
		{"jmeter", "dates.jtl", jmeterDates.Replace(jmeterGood), "valid 4 of 4 answered in 2 s 2xx=4"},
		{"jmeter", "dates2.jtl", regexp.MustCompile(`17145576(\d\d)\d{3}`).ReplaceAllString(jmeterGood, "05/01/24 10:00:$1"), "valid 4 of 4 answered in 1.5 s 2xx=4"},
		{"jmeter", "words.jtl", strings.ReplaceAll(jmeterGood, ",200,", ",OK,"), "valid 4 of 4 answered in 2 s 2xx=4"},
		{"jmeter", "real.xml", file("jmeter-5.6.3.xml"), "valid 10 of 20 answered in 0.472 s 2xx=8 conn=10 status=2"},
		{"jmeter", "results.xml", jmeterXML, "valid 3 of 4 answered in 1.5 s 2xx=2 status=1 timeout=1"},
		{"jmeter", "appended.jtl", jmeterGood + strings.Join(strings.SplitAfter(strings.ReplaceAll(jmeterGood, "17145576", "17146440"), "\n")[1:], ""), "failed: read FILE: 2 runs are in one file: after 2024-05-01 10:00:03 UTC it has a gap of 86398 s, after 4 of 8 requests, and within the runs none of more than 1 s"},
		{"gatling", "real.log", file("gatling-3.9.5.log"), "valid 30 of 60 answered in 1.169 s 2xx=24 conn=30 status=6"},
		{"gatling", "simulation.log", gatlingLog, "valid 3 of 4 answered in 2.5 s 2xx=2 conn=1 status=1"},
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
		case test.name == "a.jtl" && (tr.Record.Started.Unix() != 1714557601 || tr.Record.Load.BytesIn != 30):
			t.Errorf("started %v, %d bytes", tr.Record.Started, tr.Record.Load.BytesIn)
		case test.name == "lines.json" && !tr.Record.Started.Equal(time.Date(2024, 5, 1, 10, 0, 1, 0, time.UTC)):
			t.Errorf("started %v", tr.Record.Started)
		case test.name == "oha.txt" && test.generator == "oha" && tr.Record.Load.BytesIn != 156938:
			t.Errorf("%d bytes, and 153.26 KiB are 156938", tr.Record.Load.BytesIn)
		case test.name == "dates.jtl" && tr.Record.Started.UnixMilli() != 1714557601000:
			t.Errorf("started %v", tr.Record.Started)
		case test.name == "results.xml" && test.generator == "jmeter" && tr.Record.Load.BytesIn != 30:
			t.Errorf("%d bytes", tr.Record.Load.BytesIn)
		case test.name == "max.json" && (float64(tr.Rate) != 0 || tr.Record.Load.Loop != "closed" || tr.Record.Started.Year() != 2024):
			t.Errorf("rate %v, loop %s, started %v", tr.Rate, tr.Record.Load.Loop, tr.Record.Started)
		case test.generator == "nighthawk" && (float64(tr.Rate) != 2000 || tr.Connections != 8):
			t.Errorf("rate %v, %d connections", tr.Rate, tr.Connections)
		}
	}
}
