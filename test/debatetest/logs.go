package debatetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
)

// log returns the output of one pod's load generator, and its file name.
func (s Sequence) log(rate, run, pod int, random *rand.Rand) (string, []byte) {
	share := rate / s.Pods
	n := share * s.Seconds
	ms := make([]float64, n)
	for i := range ms {
		ms[i] = math.Round(10*math.Exp(0.4*random.NormFloat64())*1000) / 1000
	}
	sort.Float64s(ms)
	id := fmt.Sprintf("%c%c%cx%d", 'a'+pod, 'b'+run%20, 'c', pod)
	if s.Oha != "" {
		return fmt.Sprintf("%d-%d-oha-%s.log", rate, run, id), []byte(ohaLog(ms, s.Seconds, s.Oha))
	}
	return fmt.Sprintf("%d-%d-wrk2-%s.log", rate, run, id), []byte(Wrk2Log(ms, share, s.Seconds))
}

// Wrk2Log returns wrk2's text for sorted latencies in ms. With few requests for
// its 200 connections it contains wrk2's false timeouts.
func Wrk2Log(ms []float64, rate, seconds int) string {
	const connections = 200
	// Its first ten seconds are calibration and in no histogram.
	measured := ms[:max(1, len(ms)*(seconds-10)/seconds)]
	var b strings.Builder
	fmt.Fprintf(&b, "Running %dm test @ http://face/\n  8 threads and %d connections\n", seconds/60, connections)
	for range 8 {
		b.WriteString("  Thread calibration: mean lat.: 12.144ms, rate sampling interval: 40ms\n")
	}
	mean := 0.0
	for _, v := range measured {
		mean += v / float64(len(measured))
	}
	top := measured[len(measured)-1]
	fmt.Fprintf(&b, "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency    %.2fms    1.00ms  %.2fms   70.00%%\n    Req/Sec     2.44     14.38   130.00     96.80%%\n", mean, top)
	b.WriteString("  Latency Distribution (HdrHistogram - Recorded Latency)\n")
	for _, p := range []float64{50, 75, 90, 99, 99.9, 99.99, 99.999, 100} {
		v, _ := quantile(measured, p/100)
		fmt.Fprintf(&b, "%7.3f%% %7.2fms\n", p, v)
	}
	b.WriteString("\n  Detailed Percentile spectrum:\n       Value   Percentile   TotalCount 1/(1-Percentile)\n\n")
	line := func(q float64) {
		v, n := quantile(measured, q)
		last := "inf"
		if q < 1 {
			last = fmt.Sprintf("%.2f", 1/(1-q))
		}
		fmt.Fprintf(&b, "%12.3f     %8.6f %12d %12s\n", v, q, n, last)
	}
	for left, q := 1.0, 0.0; left > 1e-4; left /= 2 {
		for range 5 {
			line(q)
			q += left / 10
		}
	}
	line(1)
	fmt.Fprintf(&b, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n#[Max     = %12.3f, Total count    = %12d]\n#[Buckets =           27, SubBuckets     =         2048]\n", mean, 1.0, top, len(measured))
	b.WriteString("----------------------------------------------------------\n")
	fmt.Fprintf(&b, "  %d requests in %d.00m, 2.22MB read\n", len(ms), seconds/60)
	if rate < connections/2 {
		fmt.Fprintf(&b, "  Socket errors: connect 0, read 0, write 0, timeout %d\n", connections*30)
	}
	fmt.Fprintf(&b, "Requests/sec: %9.2f\nTransfer/sec:      7.57KB\n", float64(len(ms))/float64(seconds))
	return b.String()
}

// ohaLog returns oha's JSON, or its form after a Python client.
func ohaLog(ms []float64, seconds int, form string) string {
	var p []string
	for _, q := range []float64{10, 25, 50, 75, 90, 95, 99, 99.9, 99.99} {
		v, _ := quantile(ms, q/100)
		p = append(p, fmt.Sprintf(`"p%g": %.9f`, q, v/1000))
	}
	mean := 0.0
	for _, v := range ms {
		mean += v / float64(len(ms)) / 1000
	}
	text := fmt.Sprintf(`{"summary": {"successRate": 1.0, "total": %d.0, "slowest": %.9f, "fastest": %.9f, "average": %.9f, "requestsPerSec": %.6f, "totalData": 1000, "sizePerRequest": null, "sizePerSec": 3.5},`+
		` "responseTimeHistogram": {"%.9f": 1, "%.9f": %d}, "latencyPercentiles": {%s}, "statusCodeDistribution": {"200": %d}, "errorDistribution": {"aborted due to deadline": 7}}`,
		seconds, ms[len(ms)-1]/1000, ms[0]/1000, mean, float64(len(ms))/float64(seconds), ms[0]/1000, ms[len(ms)-1]/1000, len(ms)-1, strings.Join(p, ", "), len(ms))
	switch form {
	case "repr":
		return strings.ReplaceAll(strings.ReplaceAll(text, `"`, "'"), "null", "None")
	case "bytes":
		return "b'" + text + `\n'`
	}
	return text + "\n"
}

// quantile returns the smallest value that a share q of the sorted values does not
// exceed.
func quantile(ms []float64, q float64) (float64, int) {
	n := int(math.Ceil(q*float64(len(ms)) - 1e-9))
	n = min(max(n, 1), len(ms))
	return ms[n-1], n
}
