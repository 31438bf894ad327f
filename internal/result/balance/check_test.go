package balance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/test/must"
)

// chain is front, which calls back twice.
func chain() app.Topology {
	return app.Topology{Name: "t", Entry: "front", Services: []app.Service{
		{Name: "front", Calls: []app.Call{{Service: "back"}, {Service: "back"}}}, {Name: "back"}}}
}

// requestFlow is a flow of requests by its place, written "load>front sent" or "front served".
func requestFlow(place string, t Tally) Flow {
	service, point, _ := strings.Cut(place, " ")
	service, to, _ := strings.Cut(service, ">")
	return Flow{Place: Place{service, Point(point), to, Requests}, Tally: t}
}

// stations are the places that a request of chain passes through sidecars.
var stations = []string{
	"load>front sent", "load>front outbound-received", "load>front outbound-sent", "front inbound-received", "front inbound-sent", "front served",
	"front>back sent", "front>back outbound-received", "front>back outbound-sent", "back inbound-received", "back inbound-sent", "back served",
}

// conserved are the flows of n requests through chain.
func conserved(n int64) (flows []Flow) {
	for i, place := range stations {
		count := n
		if i >= 6 {
			count *= 2
		}
		flows = append(flows, requestFlow(place, Tally{Count: count}))
	}
	return flows
}

// from adds n requests from a place on, with the calls that they cause.
func from(flows []Flow, first string, n int64) []Flow {
	flows = slices.Clone(flows)
	start := slices.Index(stations, first)
	for i := start; i < len(stations); i++ {
		if i >= 6 && start < 6 {
			flows[i].Count += 2 * n
		} else {
			flows[i].Count += n
		}
	}
	return flows
}

// within adds n requests to the places from first to last.
func within(flows []Flow, first, last string, n int64) []Flow {
	flows = slices.Clone(flows)
	for i := slices.Index(stations, first); i <= slices.Index(stations, last); i++ {
		flows[i].Count += n
	}
	return flows
}

func set(flows []Flow, place string, change func(*Flow)) []Flow {
	flows = slices.Clone(flows)
	change(&flows[slices.Index(stations, place)])
	return flows
}

func without(flows []Flow, points ...Point) []Flow {
	return slices.DeleteFunc(slices.Clone(flows), func(f Flow) bool { return slices.Contains(points, f.Point) })
}

// Requests of a mesh with a waypoint and no sidecars pass it once a call.
func TestWaypoint(t *testing.T) {
	c := []Flow{requestFlow("load>front sent", Tally{Count: 12_070}), requestFlow("front served", Tally{Count: 12_070}), requestFlow("front>back sent", Tally{Count: 24_140}),
		requestFlow("back served", Tally{Count: 24_140}), requestFlow("waypoint waypoint", Tally{Count: 36_210})}
	change := func(place string, n int64) []Flow {
		flows := slices.Clone(c)
		i := slices.IndexFunc(flows, func(f Flow) bool { return f.Place == requestFlow(place, Tally{}).Place })
		flows[i].Count += n
		return flows
	}
	tcp := append(without(c, Served), requestFlow("front served", Tally{Count: 12_070}), Flow{Place: Place{"back", Served, "", Connections}, Tally: Tally{Count: 4}})
	tcp = slices.DeleteFunc(tcp, func(f Flow) bool { return f.Service == "front" && f.Point == Sent })
	tcp[slices.IndexFunc(tcp, func(f Flow) bool { return f.Point == Waypoint })].Count = 12_070
	for _, test := range []struct {
		name, want string
		flows      []Flow
		equations  int
	}{
		{"conserved", "", c, 5},
		{"connections opened before the waypoint was", "5000 requests vanished between load and the application front and the waypoint: 36210 expected, 31210 counted, allowed difference 181; " +
			"5000 requests appeared between the waypoint and the applications", change("waypoint waypoint", -5000), 5},
		{"a client of the waypoint that it refuses", "1000 requests appeared between load and the application front and the waypoint", change("waypoint waypoint", 1000), 5},
		{"a client at an application", "1000 requests appeared between", change("back served", 1000), 5},
		{"a caller that is not counted", "", slices.DeleteFunc(slices.Clone(c), func(f Flow) bool { return f.Service == "front" && f.Point == Sent }), 2},
		{"a service of plain TCP", "", tcp, 3},
	} {
		b := Check(chain(), Rules{Measured: 1}, test.flows)
		got := b.Message()
		if test.want = strings.Replace(test.want, "the applications", "the application front and the application back", 1); !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if len(b.Equations) != test.equations {
			t.Errorf("%s: %+v, unchecked %q", test.name, b.Equations, b.Unchecked)
		}
	}
	if b := Check(chain(), Rules{Measured: 1}, change("waypoint waypoint", -5000)); b.cause() != causeBypass {
		t.Error(b.cause())
	}
}

// A proxy on Kubernetes that repeats refused requests has no counter of the retries: a waypoint, a sidecar, a gateway. A
// service has served each of them one time more. Other requests are found beside them.
func TestUncountedRetries(t *testing.T) {
	refused := func(n, foreign int64) map[string][]Flow {
		back := requestFlow("back served", Tally{Count: 20_000 + n + foreign, Failed: n})
		own := []Flow{requestFlow("load>front sent", Tally{Count: 10_000}), requestFlow("front served", Tally{Count: 10_000}), requestFlow("front>back sent", Tally{Count: 20_000}), back}
		gateway := []Flow{requestFlow("load>front sent", Tally{Count: 20_000}), requestFlow("load>front gateway", Tally{Count: 20_000}), requestFlow("front served", back.Tally)}
		return map[string][]Flow{
			"waypoint": append(slices.Clone(own), requestFlow("waypoint waypoint", Tally{Count: 30_000})),
			"sidecar":  append(slices.Clone(own), requestFlow("front outbound-sent", Tally{Count: 20_000}), requestFlow("back inbound-received", Tally{Count: back.Count})),
			"gateway":  gateway,
		}
	}
	declared := Rules{Retries: true, Uncounted: true, Measured: 1}
	for _, test := range []struct {
		n, foreign int64
		rules      Rules
		want       string
	}{
		{1500, 0, declared, ""},
		{1500, 300, declared, "1800 requests appeared"},
		{1500, 0, Rules{Uncounted: true, Measured: 1}, "1500 requests appeared"},
		{1500, 0, Rules{Retries: true, Measured: 1}, "1500 requests appeared"},
	} {
		for name, flows := range refused(test.n, test.foreign) {
			if got := Check(chain(), test.rules, flows).Message(); test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("%s, %+v: %q", name, test, got)
			}
		}
	}
}

func TestViolations(t *testing.T) {
	c := conserved(10_000)
	proxies := []Point{OutReceived, OutSent, InReceived, InSent}
	retried := func(n, counted int64) []Flow {
		return set(from(c, "load>front outbound-sent", n), "load>front outbound-sent", func(f *Flow) { f.Retries = counted })
	}
	for _, test := range []struct {
		name    string
		flows   []Flow
		hide    []Point
		retries bool
		want    string // part of the message; "": all equations hold
	}{
		{"conserved", c, nil, false, ""},
		{"conserved without proxies", c, proxies, false, ""},
		{"within the tolerance", from(c, "front served", 50), nil, false, ""},
		{"a client at the application", from(c, "front served", 51), nil, false,
			"51 requests appeared between the sidecar of front and its application: 10000 expected, 10051 counted, allowed difference 50; probable cause: a client outside the trial"},
		{"a client at the application, without proxies", from(c, "front served", 100), proxies, false, "100 requests appeared between load and the application front"},
		{"a client at the sidecar of the load", from(c, "load>front outbound-received", 100), nil, false, "100 requests appeared between load and its sidecar"},
		{"a client at a sidecar", from(c, "back inbound-received", 300), nil, false,
			"300 requests appeared between the sidecar of front and the sidecar of back: 20000 expected, 20300 counted, allowed difference 100; probable cause: a client outside the trial"},
		{"a cache in the load's proxy", from(c, "load>front outbound-sent", -2000), nil, false,
			"2000 requests vanished in the sidecar of load (outbound to front): 10000 expected, 8000 counted, allowed difference 50; probable cause: a proxy that answers itself, such as a cache"},
		{"a cache in the proxy of a service", from(c, "back inbound-sent", -2000), nil, false, "2000 requests vanished in the sidecar of back (inbound)"},
		{"a cache, with fewer counters", from(c, "load>front outbound-sent", -2000), []Point{OutReceived, InSent}, false, "2000 requests vanished between load and its sidecar"},
		{"a bypass", within(c, "load>front outbound-received", "front inbound-sent", -3000), nil, false,
			"3000 requests vanished between load and its sidecar: 10000 expected, 7000 counted, allowed difference 50; 3000 requests appeared between the sidecar of front and its application: 7000 expected, 10000 counted, allowed difference 35; probable cause: requests that bypass the proxies"},
		{"failed on the way", set(from(c, "front inbound-received", -500), "load>front sent", func(f *Flow) { f.Failed = 500 }), nil, false, ""},
		{"hidden retries", retried(700, 700), nil, false,
			"700 requests appeared in the sidecar of load (outbound to front): 10000 expected, 10700 counted, allowed difference 50; the proxy counted 700 retries; probable cause: a proxy that repeats requests"},
		{"hidden retries without a counter of retries", from(c, "load>front outbound-sent", 100), nil, false,
			"100 requests appeared in the sidecar of load (outbound to front): 10000 expected, 10100 counted, allowed difference 50; probable cause: a proxy that repeats requests, which its mesh definition does not declare"},
		{"hidden retries of a sidecar beside its application", from(c, "front inbound-sent", 100), nil, false,
			"100 requests appeared in the sidecar of front (inbound): 10000 expected, 10100 counted, allowed difference 50; probable cause: a proxy that repeats requests, which"},
		{"more after a sidecar that counts on one side", from(c, "load>front outbound-sent", 100), []Point{OutReceived}, false,
			"probable cause: a client outside the trial, or a proxy that repeats requests and does not count them"},
		{"as many refused requests after it", set(from(c, "load>front outbound-sent", 100), "front served", func(f *Flow) { f.Failed = 100 }), []Point{OutReceived}, false,
			"probable cause: a proxy that repeats requests, which its mesh definition does not declare"},
		{"refused requests that reach the load", set(set(from(c, "load>front outbound-sent", 100), "front served", func(f *Flow) { f.Failed = 100 }), "load>front sent", func(f *Flow) { f.Failed = 100 }),
			[]Point{OutReceived}, false, "probable cause: a client outside the trial, or a proxy"},
		{"repeated after a loss", set(c, "load>front outbound-sent", func(f *Flow) { f.Count, f.Retries = 10_700, 700 }), nil, true, ""},
		{"more than the declared retries", retried(700, 600), nil, true,
			"700 requests appeared in the sidecar of load (outbound to front): 10000 expected, 10700 counted, allowed difference 650; the proxy counted 600 retries"},
		{"an application that calls too little", from(c, "front>back sent", -5000), nil, false,
			"5000 requests vanished in the application front, by its calls of back (2 a request): 20000 expected, 15000 counted, allowed difference 100; probable cause: an application"},
		{"calls that errors prevent", set(from(c, "front>back sent", -2000), "front served", func(f *Flow) { f.Partial, f.Failed = 1000, 1000 }), nil, false, ""},
		{"retries of the application", set(from(c, "front>back sent", 900), "front>back sent", func(f *Flow) { f.Retries, f.Failed = 900, 900 }), nil, false, ""},
		{"a generator that is unsure", set(from(c, "load>front outbound-received", 80), "load>front sent", func(f *Flow) { f.Unsure = 64 }), nil, false, ""},
		{"refusals excuse no cache", set(set(from(c, "load>front outbound-sent", -1000), "load>front sent", func(f *Flow) { f.Failed = 1000 }), "front served", func(f *Flow) { f.Failed = 1000 }), nil, false,
			"1000 requests vanished in the sidecar of load"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Check(chain(), Rules{Retries: test.retries, Measured: 1}, without(test.flows, test.hide...)).Message()
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// The retries of a mesh that declares them are allowed, and named in the record.
func TestDeclaredRetries(t *testing.T) {
	flows := set(from(conserved(1000), "load>front outbound-sent", 70), "load>front outbound-sent", func(f *Flow) { f.Retries = 70 })
	b := Check(chain(), Rules{Retries: true, Measured: 1}, flows)
	if b.Message() != "" || !slices.ContainsFunc(b.Equations, func(e Equation) bool { return e.OK && e.Retries == 70 && e.More == 75 }) {
		t.Errorf("%s %+v", b.Message(), b.Equations)
	}
}

// The tolerance is a share of the requests in the measure phase, and two at least.
func TestTolerance(t *testing.T) {
	for _, test := range []struct {
		requests, surplus int64
		measured          float64
		ok                bool
	}{{10_000, 50, 1, true}, {10_000, 51, 1, false}, {10_000, 30, 0.6, true}, {10_000, 31, 0.6, false}, {100, 2, 1, true}, {100, 3, 1, false}, {0, 3, 1, false}} {
		b := Check(chain(), Rules{Measured: test.measured}, from(conserved(test.requests), "front served", test.surplus))
		if ok := b.Message() == ""; ok != test.ok {
			t.Errorf("%+v: %s", test, b.Message())
		}
	}
}

// Calls with a probability differ at random, and no further.
func TestProbability(t *testing.T) {
	half := 0.5
	top := app.Topology{Services: []app.Service{{Name: "front", Calls: []app.Call{{Service: "back", CallOptions: app.CallOptions{Probability: &half}}}}, {Name: "back"}}}
	for calls, ok := range map[int64]bool{5000: true, 5300: true, 4700: true, 5400: false, 4600: false} {
		flows := []Flow{requestFlow("load>front sent", Tally{Count: 10_000}), requestFlow("front served", Tally{Count: 10_000}), requestFlow("front>back sent", Tally{Count: calls}), requestFlow("back served", Tally{Count: calls})}
		if b := Check(top, Rules{Measured: 1}, flows); (b.Message() == "") != ok {
			t.Errorf("%d calls: %s", calls, b.Message())
		}
	}
}

// A followed redirect is a request of its own.
func TestRedirects(t *testing.T) {
	top := chain()
	for i := range top.Services[0].Calls {
		top.Services[0].Calls[i].CallOptions = app.CallOptions{Path: "/old", FollowRedirects: true}
	}
	top.Services[1].Redirects = map[string]string{"/old": "/new"}
	if b := Check(top, Rules{Measured: 1}, from(conserved(100), "front>back sent", 200)); b.Message() != "" {
		t.Error(b.Message())
	}
}

// A proxy that counts all calls of an application together is compared with their sum.
func TestJointCounters(t *testing.T) {
	top := app.Topology{Services: []app.Service{{Name: "front", Calls: []app.Call{{Service: "a"}, {Service: "b"}}}, {Name: "a"}, {Name: "b"}}}
	flows := func(out, b int64) []Flow {
		return []Flow{
			requestFlow("load>front sent", Tally{Count: 1000}), requestFlow("load outbound-sent", Tally{Count: 1000}), requestFlow("front inbound-received", Tally{Count: 1000}), requestFlow("front served", Tally{Count: 1000}),
			requestFlow("front>a sent", Tally{Count: 1000}), requestFlow("front>b sent", Tally{Count: 1000}), requestFlow("front outbound-sent", Tally{Count: out}),
			requestFlow("a inbound-received", Tally{Count: 1000}), requestFlow("a served", Tally{Count: 1000}), requestFlow("b inbound-received", Tally{Count: b}), requestFlow("b served", Tally{Count: b}),
		}
	}
	for _, test := range []struct {
		out, b int64
		want   string
	}{{2000, 1000, ""}, {2000, 1100, "100 requests appeared between the sidecar of front and the sidecar of a and the sidecar of b"}, {1700, 700, "300 requests vanished between the application front and its sidecar"}} {
		got := Check(top, Rules{Measured: 1}, flows(test.out, test.b))
		if m := got.Message(); test.want == "" && m != "" || !strings.Contains(m, test.want) {
			t.Errorf("%+v: %q, want %q", test, m, test.want)
		}
		if got.Unchecked != nil {
			t.Errorf("unchecked: %q", got.Unchecked)
		}
	}
}

// Equations that cannot be made have a reason; the others are made without the unknown count.
func TestUnchecked(t *testing.T) {
	unknown := func(why string) func(*Flow) { return func(f *Flow) { f.Unknown, f.Tally = why, Tally{} } }
	for _, test := range []struct {
		name  string
		flows []Flow
		want  string
		found bool // a client at back is found all the same
	}{
		{"a proxy", set(conserved(1000), "back inbound-received", unknown("no counter")), "requests received by the sidecar of back: no counter", true},
		{"an application", set(conserved(1000), "back served", unknown("no counter")), "requests served by the application back: no counter", false},
		{"the load", without(conserved(1000), OutReceived, OutSent, InReceived, InSent)[1:], "requests to front: a counter is missing on one side", true},
		{"all", nil, "no counters of requests are known", false},
	} {
		flows := slices.Clone(test.flows)
		b := Check(chain(), Rules{Measured: 1}, flows)
		if b.Message() != "" || !slices.Contains(b.Unchecked, test.want) {
			t.Errorf("%s: %q, unchecked %q, want %q", test.name, b.Message(), b.Unchecked, test.want)
		}
		if i := len(flows) - 1; test.found {
			flows[i].Count += 500
			if m := Check(chain(), Rules{Measured: 1}, flows).Message(); !strings.Contains(m, "500 requests appeared") {
				t.Errorf("%s: %q", test.name, m)
			}
		}
	}
}

// Plain TCP and proxies of connections are compared by connections, handshakes between proxies.
func TestUnits(t *testing.T) {
	top := app.Topology{Services: []app.Service{{Name: "echo"}}}
	in := func(unit Unit, place string, n int64) Flow {
		f := requestFlow(place, Tally{Count: n})
		f.Unit = unit
		return f
	}
	flows := []Flow{in(Connections, "load>echo sent", 50), in(Connections, "load>echo outbound-sent", 50), in(Connections, "echo inbound-received", 50), in(Connections, "echo served", 50),
		in(Handshakes, "load>echo outbound-sent", 50), in(Handshakes, "echo inbound-received", 50)}
	if b := Check(top, Rules{Measured: 1}, flows); b.Message() != "" || b.Unchecked != nil || len(b.Equations) != 4 {
		t.Errorf("%+v", b)
	}
	for i, want := range map[int]string{3: "9 connections appeared between the sidecar of echo and its application", 5: "9 TLS handshakes appeared between the sidecar of load and the sidecar of echo"} {
		changed := slices.Clone(flows)
		changed[i].Count += 9
		must.Contain(t, Check(top, Rules{Measured: 1}, changed).Message(), want)
	}
}

func TestChanges(t *testing.T) {
	served := func(by, instance string, n int64) Count {
		return Count{Place: Place{Service: "echo", Point: Served, Unit: Requests}, Tally: Tally{Count: n}, By: by, Instance: instance}
	}
	a, b := served("echo-0/app", "1", 10), served("echo-1/app", "2", 20)
	for _, test := range []struct {
		name          string
		before, after []Count
		want          string
	}{
		{"sum", []Count{a, b}, []Count{served("echo-0/app", "1", 15), served("echo-1/app", "2", 27)}, "12"},
		{"restarted", []Count{a, b}, []Count{served("echo-0/app", "9", 15), b}, "echo-0/app was restarted during the load"},
		{"ended", []Count{a, b}, []Count{a}, "echo-1/app was ended during the load"},
		{"started", []Count{a}, []Count{a, b}, "echo-1/app was started during the load"},
		{"back", []Count{a}, []Count{served("echo-0/app", "1", 9)}, "a counter of echo-0/app went back"},
		{"unknown", []Count{a}, []Count{{Place: a.Place, By: a.By, Instance: "1", Unknown: "refused"}}, "refused"},
	} {
		flows := Changes(test.before, test.after)
		if len(flows) != 1 {
			t.Fatalf("%s: %+v", test.name, flows)
		}
		got := flows[0].Unknown
		if got == "" {
			got = fmt.Sprint(flows[0].Count)
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// Without declared calls, as in manifests, requests of services do not violate anything. Requests of the load are still checked.
func TestUndeclaredCalls(t *testing.T) {
	topology := chain()
	topology.Manifests = []string{"k8s"}
	topology.Services[0].Calls = nil
	flows := without(conserved(10_000), Served)
	b := Check(topology, Rules{Measured: 1}, flows)
	if b.Message() != "" || len(b.Equations) == 0 || !strings.Contains(strings.Join(b.Unchecked, "\n"), "not declared") {
		t.Errorf("%s %+v", b.Message(), b)
	}
	visited := without(from(conserved(10_000), "front inbound-received", 300), Served)
	must.Contain(t, Check(topology, Rules{Measured: 1}, visited).Message(), "300 requests appeared")
	topology.Manifests = nil
	if Check(topology, Rules{Measured: 1}, flows).Message() == "" {
		t.Error("the same requests hold for a topology whose calls are known")
	}
}
