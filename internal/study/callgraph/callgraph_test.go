package callgraph_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/study/callgraph"
	"github.com/tare-mesh/tare/test/must"
)

func read(t *testing.T, name string) callgraph.Application {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	if !callgraph.Known(data) {
		t.Fatalf("%s is not known", name)
	}
	return must.Get(callgraph.Read(filepath.Join("testdata", name), data))(t)
}

// described are the services of a graph with their calls, as one text.
func described(g predict.Graph) string {
	var all []string
	for _, s := range g.Services {
		text := strings.Join(strings.Fields(s.Name+" "+s.Protocol+" "+s.ResponseSize.String()), " ")
		for _, c := range s.Calls {
			text += " > " + c.Service
			if c.Probability != nil {
				text += fmt.Sprintf(" %.3f", *c.Probability)
			}
			if c.Alongside {
				text += " alongside"
			}
			if !c.RequestSize.IsZero() {
				text += " " + c.RequestSize.String()
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ") + "; entry " + g.Entry
}

func TestFormats(t *testing.T) {
	for name, want := range map[string]string{
		"jaeger.json": "cart grpc; catalog 8000 > stock 0.250; front 16000 > catalog > cart alongside; stock; entry front",
		"otlp.jsonl":  "api 500 > store > store 0.667; store; web 2000 > api 300; entry web",
		"istio.prom":  "details 2000; productpage 2000 > details 0.990 400 > reviews 0.980 400; ratings grpc 2000; reviews 2000 > ratings 0.663 400; entry productpage",
		"range.json":  "details; productpage > details 0.990 > reviews 0.980; ratings grpc; reviews > ratings 0.663; entry productpage",
	} {
		if got := described(read(t, name).Graph); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// Counted calls have a standard error: of traces by request, of counters as independent counts.
// Spans in a circle, as a broken exporter or an attacker writes them, end. Sizes that are no number of bytes count as unknown.
func TestHostileSpans(t *testing.T) {
	var spans []string
	span := func(id, parent, process, tags string) {
		spans = append(spans, fmt.Sprintf(`{"traceID": "1", "spanID": %q, "parentSpanID": %q, "processID": %q, "startTime": 1, "duration": 1, "tags": [%s]}`, id, parent, process, tags))
	}
	const circle = 20_000
	for i := range circle {
		span(fmt.Sprint("front", i), fmt.Sprint("front", (i+1)%circle), "front", "")
		span(fmt.Sprint("cart", i), fmt.Sprint("front", i), "cart", `{"key": "http.response.body.size", "value": "Inf"}`)
	}
	span("entry", "", "front", "")
	data := fmt.Sprintf(`{"data": [{"traceID": "1", "spans": [%s], "processes": {"front": {"serviceName": "front"}, "cart": {"serviceName": "cart"}}}]}`, strings.Join(spans, ","))
	a, err := callgraph.Read("circle.json", []byte(data))
	if err == nil {
		for _, s := range a.Graph.Services {
			if !s.ResponseSize.IsZero() {
				t.Errorf("%s answers with %s", s.Name, s.ResponseSize)
			}
		}
	} else if !strings.Contains(err.Error(), "times for each request") {
		t.Error(err)
	}
}

func TestCountedCallsHaveErrors(t *testing.T) {
	jaeger := read(t, "jaeger.json")
	for e, want := range map[predict.Edge]float64{
		{From: "front", To: "catalog"}: 0,
		{From: "catalog", To: "stock"}: math.Sqrt(0.25 * 0.75 / 4),
	} {
		if got := jaeger.Graph.Counted[e]; math.Abs(got-want) > 1e-9 {
			t.Errorf("calls of %v have the standard error %v, want %v", e, got, want)
		}
	}
	if got, want := read(t, "istio.prom").Graph.Counted[predict.Edge{From: "reviews", To: "ratings"}], math.Sqrt(650.0/980)/math.Sqrt(980); math.Abs(got-want) > 1e-9 {
		t.Errorf("counted calls have the standard error %v, want %v", got, want)
	}
	if notes := jaeger.Notes; len(notes) != 1 || !strings.Contains(notes[0], "4 calls have no span") {
		t.Errorf("notes %q, want the 4 calls of a database", notes)
	}
}

// A range query has rates from outside. Its counters restarted: 5, 1005, then 1000 more.
func TestRangesHaveRates(t *testing.T) {
	a := read(t, "range.json")
	if got := a.Rates["productpage"]; math.Abs(got-2000.0/120) > 1e-9 || len(a.Rates) != 1 {
		t.Errorf("rates %v, want 16.7 requests/s at productpage", a.Rates)
	}
	if a := read(t, "istio.prom"); a.Rates != nil {
		t.Errorf("one reading of counters has rates: %v", a.Rates)
	}
}

// tracesOf are n traces of Jaeger. Each line is a span: its id, its parent's, its service and its kind.
func tracesOf(n int, lines ...string) string {
	var traces []string
	for i := range n {
		var spans, processes []string
		for k, line := range lines {
			f := strings.Fields(line)
			spans = append(spans, fmt.Sprintf(`{"traceID":"%d","spanID":%q,"references":[{"refType":"CHILD_OF","spanID":%q}],"startTime":%d,"duration":10,"tags":[{"key":"span.kind","value":%q}],"processID":%q}`, i, f[0], strings.Trim(f[1], "-"), k, f[3], f[2]))
			processes = append(processes, fmt.Sprintf(`%q:{"serviceName":%q}`, f[2], f[2]))
		}
		traces = append(traces, fmt.Sprintf(`{"traceID":"%d","spans":[%s],"processes":{%s}}`, i, strings.Join(spans, ","), strings.Join(processes, ",")))
	}
	return `{"data":[` + strings.Join(traces, ",") + `]}`
}

// What works off messages, or begins by itself, calls others: its sidecar sends, and receives nothing.
func TestMessagesAndJobs(t *testing.T) {
	queue := []string{"1 - order server", "2 1 order producer", "3 2 worker consumer", "4 3 worker client", "5 4 stock server"}
	for name, test := range map[string]struct {
		spans []string
		rates string // received at 100/s at the entry
		calls string // "caller>service rate"
	}{
		"a queue":             {queue, "order 100, stock 100", ">order 100, worker>stock 100"},
		"a queue of a queue":  {append(queue[:4:4], "5 3 worker producer", "6 5 mailer consumer", "7 6 mailer client", "8 7 stock server"), "order 100, stock 100", ">order 100, mailer>stock 100"},
		"two messages":        {append(queue[:5:5], "6 1 order producer", "7 6 worker consumer", "8 7 worker client", "9 8 stock server"), "order 100, stock 200", ">order 100, worker>stock 200"},
		"cron":                {[]string{"1 - cron internal", "2 1 cron client", "3 2 stock server"}, "stock 100", "cron>stock 100"},
		"a queue without use": {queue[:3], "order 100", ">order 100"},
	} {
		a := must.Get(callgraph.Read("x.json", []byte(tracesOf(50, test.spans...))))(t)
		flow := must.Get(a.Graph.Spread(map[string]float64{a.Graph.Entry: 100}))(t)
		var rates, calls []string
		for _, s := range a.Graph.Services {
			if r := flow.Rates[s.Name]; r > 0 {
				rates = append(rates, fmt.Sprintf("%s %g", s.Name, r))
			}
		}
		for _, c := range flow.Calls {
			calls = append(calls, fmt.Sprintf("%s>%s %g", c.From, c.To, c.Rate))
		}
		if r, c := strings.Join(rates, ", "), strings.Join(calls, ", "); r != test.rates || c != test.calls {
			t.Errorf("%s: received %s, calls %s; want %s and %s", name, r, c, test.rates, test.calls)
		}
	}
	_, err := callgraph.Read("x.json", []byte(`[{"traceId":"1","id":"1","kind":"SERVER","localEndpoint":{"serviceName":"a"}}]`))
	must.Fail(t, err, "x.json:1:1: these are traces of Zipkin")
	a := must.Get(callgraph.Read("x.json", []byte(tracesOf(3, append(queue[:5:5], "6 5 stock client", "7 6 order server")...))))(t)
	must.Fail(t, must.Err(a.Graph.Spread(map[string]float64{"order": 1})), "form a cycle")
}

func TestRefusals(t *testing.T) {
	span := `{"traceID":"1","spanID":"%d","references":[{"refType":"CHILD_OF","spanID":"%d"}],"processID":"%s"}`
	circle := fmt.Sprintf(`{"data":[{"traceID":"1","spans":[`+span+","+span+","+span+`],"processes":{"a":{"serviceName":"a"},"b":{"serviceName":"b"}}}]}`, 1, 0, "a", 2, 1, "b", 3, 2, "a")
	for text, want := range map[string]string{
		"{\n \"data\": [}":                       "x.json:2:12: cannot be read as JSON",
		`{"spans": []}`:                          "neither data nor resourceSpans",
		`{"data": []}`:                           "no request that a service received",
		`{"data": {"resultType": "scalar"}}`:     "expected a matrix or a vector",
		circle:                                   "the calls form a cycle",
		requestsTotal + `{destination_app="a" 3`: "x.json:1:1:",
		`{"data": {"resultType": "vector", "result": [{"metric": {"destination_app": "a"}, "value": [1, "x"]}]}}`: "is not a number",
	} {
		if _, err := callgraph.Read("x.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if callgraph.Known([]byte("name: a\nservices: []\n")) {
		t.Error("a topology is known")
	}
}

const requestsTotal = "istio_requests_total"

// Names of services become labels, all different.
func TestNamesAreLabels(t *testing.T) {
	text := ""
	for _, name := range []string{"Order Service", "order_service", "ünï", strings.Repeat("x", 300)} {
		text += requestsTotal + `{reporter="destination",destination_app="` + name + `"} 3` + "\n"
	}
	a := must.Get(callgraph.Read("x.prom", []byte(text)))(t)
	for _, s := range a.Graph.Services {
		if !app.IsLabel(s.Name) {
			t.Errorf("%q is not a label", s.Name)
		}
	}
	if len(a.Graph.Services) != 4 {
		t.Errorf("%d services, want 4", len(a.Graph.Services))
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"jaeger.json", "otlp.jsonl", "istio.prom", "range.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		if callgraph.Known(data) {
			_, _ = callgraph.Read("x", data)
		}
	})
}
