package importer

import (
	"math"
	"slices"
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
		o, err := parseOutput(generator, "fuzz", b, Options{Corrected: true, Rate: 10})
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
	vegetaCSV = "1735787045000000000,200,1000000,0,615,,,,0,GET,http://x/,\n1735787046000000000,0,2000000,0,0,timeout,,,1,GET,http://x/,\n1735787047000000000,200,2000000,0,0,,,,2,GET,http://x/,\n"
)

// outputSeeds contain one valid output of each generator.
var outputSeeds = map[string][]string{
	"wrk2": {wrk2Seed()}, "wrk": {wrkSeed}, "oha": {ohaSeed, "b'" + ohaSeed + "'"}, "fortio": {fortioSeed},
	"vegeta": {vegetaReport, vegetaJSON, vegetaCSV}, "k6": {k6Seed, k6Lines, k6CSV}, "nighthawk": {nhSeed},
	"hey": {heyText, heyCSV}, "ghz": {ghzSeed}, "jmeter": {jmeterSeed},
}

func FuzzWrk2(f *testing.F)      { fuzzOutput(f, "wrk2", outputSeeds["wrk2"]...) }
func FuzzWrk(f *testing.F)       { fuzzOutput(f, "wrk", outputSeeds["wrk"]...) }
func FuzzOha(f *testing.F)       { fuzzOutput(f, "oha", outputSeeds["oha"]...) }
func FuzzFortio(f *testing.F)    { fuzzOutput(f, "fortio", outputSeeds["fortio"]...) }
func FuzzVegeta(f *testing.F)    { fuzzOutput(f, "vegeta", outputSeeds["vegeta"]...) }
func FuzzK6(f *testing.F)        { fuzzOutput(f, "k6", outputSeeds["k6"]...) }
func FuzzNighthawk(f *testing.F) { fuzzOutput(f, "nighthawk", outputSeeds["nighthawk"]...) }
func FuzzHey(f *testing.F)       { fuzzOutput(f, "hey", outputSeeds["hey"]...) }
func FuzzGhz(f *testing.F)       { fuzzOutput(f, "ghz", outputSeeds["ghz"]...) }
func FuzzJMeter(f *testing.F)    { fuzzOutput(f, "jmeter", outputSeeds["jmeter"]...) }
func FuzzPercentiles(f *testing.F) {
	fuzzOutput(f, "hdrhistogram", percentiles)
}

const (
	k6Lines = `{"type":"Metric","data":{"name":"http_req_duration","type":"trend"},"metric":"http_req_duration"}
{"metric":"http_reqs","type":"Point","data":{"time":"2024-05-01T10:00:01.5Z","value":1,"tags":{"status":"200"}}}
{"metric":"http_req_duration","type":"Point","data":{"time":"2024-05-01T10:00:01.5Z","value":500,"tags":{"expected_response":"true","status":"200"}}}
{"metric":"http_req_duration","type":"Point","data":{"time":"2024-05-01T10:00:02Z","value":250,"tags":{"status":"503","error_code":"1503"}}}
{"metric":"http_req_duration","type":"Point","data":{"time":"2024-05-01T10:00:03Z","value":0,"tags":{"status":"0","error":"dial: connection refused"}}}
`
	k6CSV = `metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,method,name,proto,scenario,service,status,subproto,tls_version,url,extra_tags,metadata
http_reqs,1714557602,1.000000,,,,true,,GET,http://a/,HTTP/1.1,default,,200,,,http://a/,,
http_req_duration,1714557602,500.000000,,,,true,,GET,http://a/,HTTP/1.1,default,,200,,,http://a/,,
http_req_duration,1714557603,250.000000,,,1503,false,,GET,http://a/,HTTP/1.1,default,,503,,,http://a/,,
http_req_duration,1714557604,0.000000,,request timeout,1050,false,,GET,http://a/,,default,,0,,,http://a/,,
`
	heyCSV  = "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset\n0.5000,0.0010,0.0000,0.0001,0.4000,0.0001,200,0.0000\n0.2500,0.0000,0.0000,0.0001,0.2000,0.0001,503,1.0000\n0.5000,0.0000,0.0000,0.0001,0.4000,0.0001,200,2.5000\n"
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
	ghzSeed = `{"date":"2024-05-01T10:00:02Z","options":{"total":4,"concurrency":2},"count":4,"total":2000000000,"average":3000000,"fastest":1000000,"slowest":5000000,"rps":2,
"errorDistribution":{"rpc error: code = Unavailable desc = connection refused":1},"statusCodeDistribution":{"OK":3,"Unavailable":1},
"latencyDistribution":[{"percentage":50,"latency":3000000},{"percentage":99,"latency":5000000}],"histogram":[{"mark":0.001,"count":1,"frequency":0.3}],
"details":[{"timestamp":"2024-05-01T10:00:01Z","latency":1000000,"error":"","status":"OK"},{"latency":3000000,"error":"","status":"OK"},{"latency":5000000,"error":"","status":"OK"},{"latency":100,"error":"rpc error","status":"Unavailable"}]}`
	jmeterSeed = `timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,sentBytes,grpThreads,allThreads,URL,Latency,IdleTime,Connect
1714557601000,500,Home,200,OK,T 1-1,text,true,,10,1,1,1,http://a/,400,0,1
1714557601000,750,Checkout,200,"Number of samples in transaction : 2, number of failing samples : 1",T 1-1,,false,,20,2,1,1,null,0,0,0
1714557602000,250,Home,200,OK,T 1-1,text,false,"Test failed: text expected, none",10,1,1,1,http://a/,200,0,1
1714557603000,10,Home,Non HTTP response code: java.net.SocketTimeoutException,Non HTTP response message: Read timed out,T 1-1,text,false,,0,0,1,1,http://a/,0,0,0
1714557604000,500,Home,200,OK,T 1-1,text,true,,10,1,1,1,http://a/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx,400,0,1
`
	percentiles = `       Value     Percentile TotalCount 1/(1-Percentile)

       1.000 0.000000000000         10           1.00
       2.000 0.500000000000         50           2.00
       9.000 0.990000000000         99         100.00
      20.000 1.000000000000        100
#[Mean    =        2.500, StdDeviation   =        1.000]
#[Max     =       20.000, Total count    =          100]
#[Buckets =           27, SubBuckets     =         2048]
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
			if d := difftest.Wrong("o.requests == 0", o.requests == 0, `o.classes["2xx"] == 0`, o.classes["2xx"] == 0, `o.latency.Of == ""`, o.latency.Of == "", "len(o.latency.Quantiles) == 0 && len(o.bins) == 0", len(o.latency.Quantiles) == 0 && len(o.bins) == 0); d != "" {
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
