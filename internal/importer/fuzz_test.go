package importer

import (
	"math"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/test/debatetest"
	"github.com/tare-mesh/tare/test/difftest"
)

// fuzzOutput checks that every figure of a file is possible.
func fuzzOutput(f *testing.F, generator string, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := ParseOutput(generator, "fuzz", b, true)
		if err != nil {
			return
		}
		l, _, _, err := pool([]*Output{o})
		if err != nil {
			return
		}
		rate := float64(l.Completed) / l.MeasureSeconds
		if l.Completed < 0 || l.Intended <= 0 || !(rate >= 0 && rate < math.MaxFloat64) || l.Recorded < 0 || l.Recorded > l.Completed+sum(l.Errors) {
			t.Errorf("%d requests in %v s, %d recorded", l.Completed, l.MeasureSeconds, l.Recorded)
		}
		for class, n := range l.Classes {
			if n < 0 {
				t.Errorf("%d of class %s", n, class)
			}
		}
		for _, q := range o.latency.Quantiles {
			if !(q.MS >= 0) || !(q.Q >= 0 && q.Q <= 1) {
				t.Errorf("quantile %v", q)
			}
		}
		if !slices.IsSortedFunc(o.bins, func(a, b bin) int { return int(math.Copysign(1, a.to-b.to)) }) {
			t.Error("bins are not in order")
		}
	})
}

func wrk2Seed() string {
	ms := make([]float64, 600)
	for i := range ms {
		ms[i] = float64(i) / 10
	}
	return debatetest.Wrk2Log(ms, 10, 60)
}

const (
	ohaSeed    = `{"summary":{"successRate":1.0,"total":10.0,"slowest":0.02,"fastest":0.001,"average":0.002,"requestsPerSec":10.0,"totalData":1000},"latencyPercentiles":{"p50":0.002,"p99":0.01},"statusCodeDistribution":{"200":100},"errorDistribution":{"aborted due to deadline":3}}`
	fortioSeed = `{"RunType":"HTTP","RequestedQPS":"10","ActualQPS":10,"ActualDuration":10000000000,"NumThreads":4,"Version":"1.60.3","DurationHistogram":{"Count":100,"Min":0.001,"Max":0.02,"Avg":0.002,"Data":[{"Start":0.001,"End":0.002,"Percent":90,"Count":90},{"Start":0.002,"End":0.02,"Percent":100,"Count":10}],"Percentiles":[{"Percentile":50,"Value":0.0015}]},"RetCodes":{"200":100}}`
	wrkSeed    = "Running 10s test @ http://x/\n  2 threads and 10 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     1.00ms    0.50ms  20.00ms   90.00%\n    Req/Sec     5.00k     0.10k    6.00k    90.00%\n  Latency Distribution\n     50%    0.90ms\n     75%    1.10ms\n     90%    1.50ms\n     99%    5.00ms\n  100000 requests in 10.00s, 10.00MB read\nRequests/sec:  10000.00\nTransfer/sec:      1.00MB\n"
	k6Seed     = `{"metrics":{"http_reqs":{"count":100,"rate":10},"http_req_duration":{"avg":2,"min":1,"med":2,"max":20,"p(90)":3,"p(95)":4},"http_req_failed":{"passes":0,"fails":100,"value":0},"vus_max":{"value":4,"min":4,"max":4},"data_received":{"count":1000,"rate":100}}}`
	vegetaJSON = `{"attack":"","seq":0,"code":200,"timestamp":"2025-01-02T03:04:05Z","latency":1000000,"bytes_out":0,"bytes_in":615,"error":"","body":"","method":"GET","url":"http://x/","headers":null}` + "\n" +
		`{"attack":"","seq":1,"code":200,"timestamp":"2025-01-02T03:04:06Z","latency":2000000,"bytes_out":0,"bytes_in":615,"error":"","body":"","method":"GET","url":"http://x/","headers":null}` + "\n"
)

// outputSeeds contain one valid output of each generator.
var outputSeeds = map[string][]string{
	"wrk2": {wrk2Seed()}, "wrk": {wrkSeed}, "oha": {ohaSeed, "b'" + ohaSeed + "'"}, "fortio": {fortioSeed},
	"vegeta": {vegetaReport, vegetaJSON}, "k6": {k6Seed, k6Lines},
}

func FuzzWrk2(f *testing.F)   { fuzzOutput(f, "wrk2", outputSeeds["wrk2"]...) }
func FuzzWrk(f *testing.F)    { fuzzOutput(f, "wrk", outputSeeds["wrk"]...) }
func FuzzOha(f *testing.F)    { fuzzOutput(f, "oha", outputSeeds["oha"]...) }
func FuzzFortio(f *testing.F) { fuzzOutput(f, "fortio", outputSeeds["fortio"]...) }
func FuzzVegeta(f *testing.F) { fuzzOutput(f, "vegeta", outputSeeds["vegeta"]...) }
func FuzzK6(f *testing.F)     { fuzzOutput(f, "k6", outputSeeds["k6"]...) }

const (
	k6Lines = `{"type":"Metric","data":{"name":"http_req_duration","type":"trend"},"metric":"http_req_duration"}
{"metric":"http_reqs","type":"Point","data":{"time":"2024-05-01T10:00:01.5Z","value":1,"tags":{"status":"200"}}}
{"metric":"http_req_duration","type":"Point","data":{"time":"2024-05-01T10:00:01.5Z","value":500,"tags":{"expected_response":"true","status":"200"}}}
{"metric":"http_req_duration","type":"Point","data":{"time":"2024-05-01T10:00:02Z","value":250,"tags":{"status":"503","error_code":"1503"}}}
{"metric":"http_req_duration","type":"Point","data":{"time":"2024-05-01T10:00:03Z","value":0,"tags":{"status":"0","error":"dial: connection refused"}}}
`
)

// Every seed is a valid file, so that the fuzzer starts from valid input.
func TestEveryOutputIsRead(t *testing.T) {
	for generator, seeds := range outputSeeds {
		for i, s := range seeds {
			o, err := ParseOutput(generator, "x", []byte(s), false)
			if err != nil {
				t.Errorf("%s %d: %v", generator, i, err)
				continue
			}
			if d := difftest.Wrong("o.requests == 0", o.requests == 0, `o.classes["2xx"] == 0`, o.classes["2xx"] == 0, `o.latency.Of == ""`, o.latency.Of == "", "no latency", len(o.latency.Quantiles) == 0 && len(o.bins) == 0 && o.latency.MeanMS == nil); d != "" {
				t.Errorf("%s: %s %d: %+v", d, generator, i, o)
			}
		}
	}
}

const vegetaReport = `Requests      [total, rate, throughput]         6000, 20.00, 20.00
Duration      [total, attack, wait]             5m0s, 5m0s, 1.217ms
Latencies     [min, mean, 50, 90, 95, 99, max]  588.001µs, 1.036ms, 996.513µs, 1.325ms, 1.47ms, 1.822ms, 21ms
Bytes In      [total, mean]                     3690000, 615.00
Bytes Out     [total, mean]                     0, 0.00
Success       [ratio]                           100.00%
Status Codes  [code:count]                      200:6000
Error Set:
`
