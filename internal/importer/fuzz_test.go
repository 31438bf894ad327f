package importer

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/study/debate/debatetest"
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
	nhSeed     = `{"options":{"requests_per_second":10,"connections":4,"duration":"10s"},"results":[{"name":"global","statistics":[{"id":"benchmark_http_client.request_to_response","count":"100","mean":"0.002s","min":"0.001s","max":"0.02s","percentiles":[{"percentile":0,"count":"1","duration":"0.001s"},{"percentile":0.5,"count":"50","duration":"0.002s"},{"percentile":1,"count":"100","duration":"0.02s"}]}],"counters":[{"name":"benchmark.http_2xx","value":"100"},{"name":"upstream_rq_total","value":"100"}],"execution_duration":"10s"}]}`
	vegetaJSON = `{"attack":"","seq":0,"code":200,"timestamp":"2025-01-02T03:04:05Z","latency":1000000,"bytes_out":0,"bytes_in":615,"error":"","body":"","method":"GET","url":"http://x/","headers":null}` + "\n" +
		`{"attack":"","seq":1,"code":200,"timestamp":"2025-01-02T03:04:06Z","latency":2000000,"bytes_out":0,"bytes_in":615,"error":"","body":"","method":"GET","url":"http://x/","headers":null}` + "\n"
)

// heyMillion is hey's text of 1,500,000 responses. It keeps a million.
var heyMillion = strings.NewReplacer("2.0000 secs", "60.0000 secs", "100.0000", "25000.0000", "0.0020 secs\n", "0.0007 secs\n", "0.0090", "0.0011", "0.0250", "0.0042",
	"190 responses\n  [503]	8 responses", "1000000 responses", "Error distribution:\n  [2]	Get \"http://a/\": context deadline exceeded\n", "").Replace(heyText)

// outputSeeds contain one valid output of each generator.
var outputSeeds = map[string][]string{
	"wrk2": {wrk2Seed()}, "wrk": {wrkSeed}, "oha": {ohaSeed, "b'" + ohaSeed + "'", ohaText}, "fortio": {fortioSeed},
	"vegeta": {vegetaReport, vegetaJSON}, "k6": {k6Seed, k6Lines, k6Text}, "nighthawk": {nhSeed},
	"hey": {heyText},
}

func FuzzWrk2(f *testing.F)      { fuzzOutput(f, "wrk2", outputSeeds["wrk2"]...) }
func FuzzWrk(f *testing.F)       { fuzzOutput(f, "wrk", outputSeeds["wrk"]...) }
func FuzzOha(f *testing.F)       { fuzzOutput(f, "oha", outputSeeds["oha"]...) }
func FuzzFortio(f *testing.F)    { fuzzOutput(f, "fortio", outputSeeds["fortio"]...) }
func FuzzVegeta(f *testing.F)    { fuzzOutput(f, "vegeta", outputSeeds["vegeta"]...) }
func FuzzK6(f *testing.F)        { fuzzOutput(f, "k6", outputSeeds["k6"]...) }
func FuzzNighthawk(f *testing.F) { fuzzOutput(f, "nighthawk", outputSeeds["nighthawk"]...) }
func FuzzHey(f *testing.F)       { fuzzOutput(f, "hey", outputSeeds["hey"]...) }

const (
	k6Lines = `{"type":"Metric","data":{"name":"http_req_duration","type":"trend"},"metric":"http_req_duration"}
{"metric":"http_reqs","type":"Point","data":{"time":"2024-05-01T10:00:01.5Z","value":1,"tags":{"status":"200"}}}
{"metric":"http_req_duration","type":"Point","data":{"time":"2024-05-01T10:00:01.5Z","value":500,"tags":{"expected_response":"true","status":"200"}}}
{"metric":"http_req_duration","type":"Point","data":{"time":"2024-05-01T10:00:02Z","value":250,"tags":{"status":"503","error_code":"1503"}}}
{"metric":"http_req_duration","type":"Point","data":{"time":"2024-05-01T10:00:03Z","value":0,"tags":{"status":"0","error":"dial: connection refused"}}}
`
	heyText = `
Summary:
  Total:	2.0000 secs
  Slowest:	0.0300 secs
  Fastest:	0.0010 secs
  Average:	0.0100 secs
  Requests/sec:	100.0000

  Total data:	1980 bytes
  Size/request:	10 bytes

Response time histogram:
  0.001 [1]	|
  0.030 [197]	|

Latency distribution:
  10% in 0.0020 secs
  50% in 0.0090 secs
  99% in 0.0250 secs

Details (average, fastest, slowest):
  DNS+dialup:	0.0001 secs, 0.0010 secs, 0.0300 secs

Status code distribution:
  [200]	190 responses
  [503]	8 responses

Error distribution:
  [2]	Get "http://a/": context deadline exceeded
`
	ohaText = `Summary:
  Success rate: 100.00%
  Total:        40.3890 sec
  Slowest:      1.2076 sec
  Fastest:      0.2998 sec
  Average:      0.8043 sec
  Requests/sec: 12.3796

  Total data:   153.26 KiB
  Size/request: 313 B
  Size/sec:     3.79 KiB

Response time histogram:
  0.300 sec [1]   |
  1.208 sec [499] |■

Response time distribution:
  10.00% in 0.6042 sec
  50.00% in 0.8000 sec
  99.00% in 1.1798 sec

Status code distribution:
  [200] 500 responses
`
	k6Text = `  █ TOTAL RESULTS

    HTTP
    http_req_duration..............: avg=3.06ms min=126.4µs med=290.8µs max=200.4ms p(90)=392.4µs p(95)=1.2ms
      { expected_response:true }...: avg=2.1ms min=126.4µs med=290.8µs max=150.4ms p(90)=392.4µs p(95)=1.1ms
    http_req_failed................: 2.97% 3 out of 101
    http_reqs......................: 101   31.93/s

    NETWORK
    data_received..................: 168 kB 53 kB/s
    data_sent......................: 12 kB  4 kB/s
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
