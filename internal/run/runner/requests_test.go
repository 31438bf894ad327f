package runner

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/engine"
	"github.com/tare-mesh/tare/internal/load/schedule"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/part"
)

var _ = part.Of("race", TestGRPCRequests) // as the tests of real_test.go

// The server gets the requests of the file in proportion to their weights, with the secrets,
// and the profile that is recorded has only their placeholders.
func TestRequestsReachTheServer(t *testing.T) {
	t.Setenv("TARE_TEST_TOKEN", "s3cret")
	var mu sync.Mutex
	got := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got[strings.Join([]string{r.Method, r.RequestURI, r.Host, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), string(body)}, "|")]++
	}))
	defer server.Close()
	p := load.Profile{Rate: 500, Requests: 400, Measure: time.Minute, Connections: 8, Drain: time.Second, ExpectSize: -1}
	l := experiment.Load{Headers: map[string]string{"Host": "all.example", "Authorization": "Basic ${env:TARE_TEST_TOKEN}"}, Requests: []experiment.Request{
		{Path: "/items?page=2", Weight: 3},
		{Path: "/a%2Fb", Headers: map[string]string{"Authorization": "Bearer ${env:TARE_TEST_TOKEN}", "Host": "shop.example"}, Body: `{"n":1}`},
	}}
	addRequests(&p, &l, []string{server.URL + "/"})
	resolved := must.Get(withSecrets(p))(t)
	report := must.Get(engine.Run(context.Background(), resolved, nil))(t)
	want := map[string]int{"GET|/items?page=2|all.example|Basic s3cret||": 300, `POST|/a%2Fb|shop.example|Bearer s3cret|application/json|{"n":1}`: 100}
	for request, n := range want {
		if got[request] != n {
			t.Errorf("%s: %d times, want %d", request, got[request], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the server got %v", got)
	}
	if n := report.Routes["GET /items"].Requests; n != 300 {
		t.Errorf("GET /items has %d requests: %+v", n, report.Routes)
	}
	for _, line := range p.Calls[1].Headers {
		if strings.Contains(line, "s3cret") {
			t.Errorf("the recorded profile has the secret: %s", line)
		}
	}
}

// A missing secret ends the run before its first trial.
func TestMissingSecret(t *testing.T) {
	err := CheckSecrets(&experiment.Experiment{Load: experiment.Load{Requests: []experiment.Request{{Headers: map[string]string{"A": "${env:TARE_TEST_ABSENT}"}}}}})
	must.Fail(t, err, "header A: environment variable TARE_TEST_ABSENT is not set")
}

// gRPC methods become paths with a whole message, and their own names.
func TestGRPCRequests(t *testing.T) {
	p := load.Profile{Protocol: load.ProtocolGRPC, Rate: 1, Measure: time.Second, Connections: 4}
	addRequests(&p, &experiment.Load{Requests: []experiment.Request{{GRPC: "shop.Cart/Add", Body: "\x0a\x01x"}, {GRPC: "/shop.Cart/Empty"}}}, []string{"http://127.0.0.1:1/tare.Echo/Echo"})
	must.OK(t, p.Validate())
	names, _ := p.Paths()
	if d := difftest.Of("p.Targets[0]", p.Targets[0], "http://127.0.0.1:1/shop.Cart/Add", "p.Targets[1]", p.Targets[1], "http://127.0.0.1:1/shop.Cart/Empty", "names[0]", names[0], "shop.Cart/Add", "p.Calls[1].Body == nil", p.Calls[1].Body == nil, false); d != "" {
		t.Errorf("%s: %+v, names %q", d, p, names)
	}
	if q := p.ForTarget(0); !q.IsMessage() {
		t.Error("the message would be wrapped in field 1 of another")
	}
}

// The number of requests in the measure phase is the mean rate times its length, for each
// kind of profile, and the warm-up has the mean rate.
func TestRateProfiles(t *testing.T) {
	second := experiment.Duration(time.Second)
	for _, c := range []struct {
		by   experiment.RateProfile
		want float64 // mean rate
		peak [2]int  // second of the measure phase with the most requests, and their number
	}{
		{experiment.RateProfile{Steps: []experiment.Step{{For: second, At: 0.5}, {For: 2 * second, From: 0.5, To: 2.5}, {For: second}}}, 87.5, [2]int{2, 200}},
		{experiment.RateProfile{Steps: []experiment.Step{{For: 3 * second, At: 1.0 / 3}, {For: second, At: 3}}}, 100, [2]int{3, 300}},
	} {
		p := load.Profile{Rate: 100, Arrivals: load.Constant, Warmup: 4 * time.Second, Measure: 8 * time.Second}
		vary(&p, c.by)
		if math.Abs(p.Rate-c.want) > 1e-9 {
			t.Errorf("%+v: rate %v, want %v", c.by, p.Rate, c.want)
		}
		s := schedule.New(&p, 0, 1)
		counts := make([]int, 12)
		for at := time.Duration(s.Next()); at < 12*time.Second; at = time.Duration(s.Next()) {
			counts[at/time.Second]++
		}
		var warm, measured int
		for i, n := range counts {
			if i < 4 {
				warm += n
			} else {
				measured += n
			}
		}
		most := slices.Max(counts[4:8])
		if d := difftest.Wrong("math.Abs(float64(warm)-4*c.want) > 1", math.Abs(float64(warm)-4*c.want) > 1, "math.Abs(float64(measured)-8*c.want) > 1", math.Abs(float64(measured)-8*c.want) > 1, "slices.Index(counts[4:8], most) != c.peak[0]", slices.Index(counts[4:8], most) != c.peak[0], "most < c.peak[1]-1", most < c.peak[1]-1, "most > c.peak[1]+1", most > c.peak[1]+1); d != "" {
			t.Errorf("%s: %+v: requests by second %v", d, c.by, counts)
		}
	}
}

// In slices all members have the same rates in the slices of one row, which follow the profile as if
// each member had the load alone.
func TestRateProfilesInSlices(t *testing.T) {
	const slice, members = 100 * time.Millisecond, 3
	ms := func(n int) experiment.Duration { return experiment.Duration(time.Duration(n) * time.Millisecond) }
	for name, by := range map[string]experiment.RateProfile{
		"steps":  {Steps: []experiment.Step{{For: ms(350), At: 0.5}, {For: ms(150), At: 0}, {For: ms(500), From: 0.5, To: 4}}},
		"bursts": {Steps: []experiment.Step{{For: ms(400), At: 0.5}, {For: ms(100), At: 3}}},
	} {
		x := load.Profile{Rate: 1000, Arrivals: load.Constant, Warmup: 400 * time.Millisecond, Measure: 2 * time.Second}
		vary(&x, by)
		// One at a time: requests by slice of the measure phase.
		alone := make([]int, x.Measure/slice)
		for s, at := schedule.New(&x, 0, 1), int64(0); at < int64(x.Warmup+x.Measure); at = s.Next() {
			if i := (time.Duration(at) - x.Warmup) / slice; at >= int64(x.Warmup) {
				alone[i]++
			}
		}
		rows := int(x.Measure / slice)
		owners := plan.Owners(5, members, 4, rows)
		for _, workers := range []int{1, 2} {
			all := 0
			for own := range members {
				p := x
				p.Seed = 9
				s := roundSchedule{warmup: members * x.Warmup, measure: members * x.Measure, members: members, own: own, table: load.Slices{Length: slice, Owners: owners}}
				s.apply(&p)
				counts := make([]int, rows)
				for w := range workers {
					for s, at := schedule.New(&p, w, workers), int64(0); at < int64(p.Warmup+p.Measure); at = s.Next() {
						if at < int64(p.Warmup) {
							continue
						}
						i := int((time.Duration(at) - p.Warmup) / slice)
						counts[i/members]++
						all++
						if owners[i+4*members] != own {
							t.Fatalf("%s: member %d sends in a slice of member %d", name, own, owners[i+4*members])
						}
					}
				}
				for row := range rows {
					if math.Abs(float64(counts[row]-alone[row])) > 2 {
						t.Errorf("%s: member %d sends %v by slice, want %v", name, own, counts, alone)
						break
					}
				}
			}
			if want := members * x.Rate * x.Measure.Seconds(); math.Abs(float64(all)-want) > 3 {
				t.Errorf("%s: %d requests, want %v", name, all, want)
			}
		}
	}
}
