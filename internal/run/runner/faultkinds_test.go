package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/platform/local"
	"github.com/tare-mesh/tare/internal/run/timeline"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

type answered struct {
	status int // 0: none within the time
	took   time.Duration
}

// subject is a deployment of two replicas for faults.
type subject struct {
	*platform.Deployment
	t *testing.T
}

// send sends n requests, each on its own connection, so that replicas alternate.
func (s subject) send(n int) []answered {
	var all []answered
	for i := range n {
		all = append(all, s.one(i, 500*time.Millisecond))
	}
	return all
}

// one sends the i-th request of a series.
func (s subject) one(i int, timeout time.Duration) (a answered) {
	client := http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	urls := s.Entry()
	began := time.Now()
	if resp, err := client.Get(urls[i%len(urls)]); err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err == nil {
			a.status = resp.StatusCode
		}
	}
	a.took = time.Since(began)
	return a
}

func failing(all []answered) bool {
	return slices.ContainsFunc(all, func(a answered) bool { return a.status != http.StatusOK })
}

// resident is the memory of the application of replica 0, bytes.
func (s subject) resident() int64 {
	tasks, err := s.Tasks(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, task := range tasks {
		if task.Pod != "echo-0" || task.Container != "app" {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", task.PID))
		if err != nil {
			s.t.Fatal(err)
		}
		pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		return pages * int64(os.Getpagesize())
	}
	s.t.Fatal("echo-0 has no application")
	return 0
}

// needs skips a test of a fault that needs privileges which this process lacks.
// Root has them, and unattended tests run as root.
func (s subject) needs(f experiment.Fault) {
	s.t.Helper()
	if err := timeline.Check([]experiment.Fault{f}, local.New(local.Options{}).Declare().Faults); err != nil {
		if os.Getuid() == 0 && !errors.Is(err, os.ErrPermission) && f.Kind != "packet-delay" { // few kernels queue packets
			s.t.Fatal(err)
		}
		s.t.Skipf("not root: %v", err)
	}
}

func (s subject) lives() int {
	return len(s.Ended())
}

const (
	// retransmission is less than the shortest time after which TCP sends again, RFC 6298 as Linux has it.
	retransmission = 190 * time.Millisecond
	// testBurst is how many requests, of some 700 bytes each way with all that TCP sends,
	// are more than the bucket of a limit of 100 bytes/s holds: that, and 64 KiB.
	testBurst = 300
	// testDelay is more than a machine that others use adds to a request by itself, again and again.
	testDelay  = 300 * time.Millisecond
	testMemory = 96 << 20
)

// slow: one of some successive requests takes at least the time of the fault, and is answered.
func slow(s subject) bool {
	for i := range 4 {
		if a := s.one(i, 20*testDelay); a.status == http.StatusOK && a.took >= testDelay {
			return true
		}
	}
	return false
}

// lossy: half of the requests go to the pod, and nearly all lose packets.
func lossy(s subject) bool {
	late := 0
	for _, a := range s.send(12) {
		if a.status == 0 || a.took >= retransmission {
			late++
		}
	}
	return late >= 4
}

// choked: once the bucket is empty, nearly every request to the pod fails. The pod is one
// of two. A single failure may come from a busy machine.
func choked(s subject) bool {
	for range testBurst {
		if !failing(s.send(2)) {
			continue
		}
		failed := 0
		for _, a := range s.send(8) {
			if a.status != http.StatusOK {
				failed++
			}
		}
		if failed >= 3 {
			return true
		}
	}
	return false
}

// faultCases has every kind of fault, with a test of its effect.
var faultCases = []struct {
	name   string
	fault  experiment.Fault
	meshed bool // it hits a sidecar
	shows  func(subject) bool
	stays  bool // the effect remains: a restart has happened
}{
	{name: "kill", fault: experiment.Fault{Kind: "kill"}, shows: func(s subject) bool { return failing(s.send(4)) }},
	{name: "kill a sidecar", fault: experiment.Fault{Kind: "kill", Target: experiment.FaultTarget{Plane: "data"}}, meshed: true,
		shows: func(s subject) bool { return failing(s.send(4)) }},
	{name: "kill the load generator's sidecar", fault: experiment.Fault{Kind: "kill", Target: experiment.FaultTarget{Service: "load", Plane: "data"}}, meshed: true,
		shows: func(s subject) bool { return failing(s.send(4)) }},
	{name: "terminate", fault: experiment.Fault{Kind: "terminate"}, shows: func(s subject) bool { return failing(s.send(4)) }},
	{name: "terminate a sidecar", fault: experiment.Fault{Kind: "terminate", Target: experiment.FaultTarget{Plane: "data"}}, meshed: true,
		shows: func(s subject) bool { return failing(s.send(4)) }},
	{name: "pause", fault: experiment.Fault{Kind: "pause"}, shows: func(s subject) bool { return failing(s.send(4)) }},
	{name: "pause a sidecar", fault: experiment.Fault{Kind: "pause", Target: experiment.FaultTarget{Plane: "data"}}, meshed: true,
		shows: func(s subject) bool { return failing(s.send(4)) }},
	{name: "restart", fault: experiment.Fault{Kind: "restart"}, shows: func(s subject) bool { return s.lives() > 0 }, stays: true},
	{name: "restart a sidecar", fault: experiment.Fault{Kind: "restart", Target: experiment.FaultTarget{Plane: "data"}}, meshed: true,
		shows: func(s subject) bool { return s.lives() > 0 }, stays: true},
	{name: "scale", fault: experiment.Fault{Kind: "scale", By: -1}, shows: func(s subject) bool { return failing(s.send(4)) }},
	{name: "latency", fault: experiment.Fault{Kind: "latency", Delay: experiment.Duration(testDelay)}, shows: slow},
	{name: "errors", fault: experiment.Fault{Kind: "errors", Ratio: 1, Status: 503}, shows: func(s subject) bool {
		return slices.ContainsFunc(s.send(4), func(a answered) bool { return a.status == 503 })
	}},
	{name: "rate-limit", fault: experiment.Fault{Kind: "rate-limit", Rate: 1}, shows: func(s subject) bool {
		return slices.ContainsFunc(s.send(12), func(a answered) bool { return a.status == 429 })
	}},
	{name: "cpu-burn", fault: experiment.Fault{Kind: "cpu-burn", CPU: experiment.Duration(testDelay)}, shows: slow},
	{name: "partition", fault: experiment.Fault{Kind: "partition"}, shows: func(s subject) bool { return failing(s.send(4)) }},
	{name: "partition of a pod with a sidecar", fault: experiment.Fault{Kind: "partition", Target: experiment.FaultTarget{Plane: "data"}}, meshed: true,
		shows: func(s subject) bool { return failing(s.send(4)) }},
	{name: "partition of the load generator's sidecar", fault: experiment.Fault{Kind: "partition", Target: experiment.FaultTarget{Service: "load", Plane: "data"}}, meshed: true,
		shows: func(s subject) bool { return failing(s.send(4)) }},
	{name: "packet loss", fault: experiment.Fault{Kind: "packet-loss", Ratio: 0.5}, shows: lossy},
	{name: "packet loss of a pod with a sidecar", fault: experiment.Fault{Kind: "packet-loss", Ratio: 0.5, Target: experiment.FaultTarget{Plane: "data"}}, meshed: true,
		shows: lossy},
	{name: "packet delay", fault: experiment.Fault{Kind: "packet-delay", Delay: experiment.Duration(testDelay)}, shows: slow},
	{name: "packet delay of a pod with a sidecar", fault: experiment.Fault{Kind: "packet-delay", Delay: experiment.Duration(testDelay), Target: experiment.FaultTarget{Plane: "data"}}, meshed: true,
		shows: slow},
	{name: "bandwidth", fault: experiment.Fault{Kind: "bandwidth", Rate: 100}, shows: choked},
	{name: "bandwidth of a pod with a sidecar", fault: experiment.Fault{Kind: "bandwidth", Rate: 100, Target: experiment.FaultTarget{Plane: "data"}}, meshed: true,
		shows: choked},
	{name: "memory", fault: experiment.Fault{Kind: "memory", Memory: testMemory}, shows: func(s subject) bool { return s.resident() > testMemory }},
}

// Every kind of fault has a row, and a second one if it can hit a sidecar.
func TestEveryFaultHasACase(t *testing.T) {
	for _, k := range experiment.FaultKinds() {
		app, data := false, false
		for _, c := range faultCases {
			if c.fault.Kind == k.Name {
				app, data = app || !c.meshed, data || c.meshed
			}
		}
		if !app || !data && !k.AppOnly {
			t.Errorf("%s: tried on the application %v, on a sidecar %v", k.Name, app, data)
		}
	}
}

// Every fault has its effect, and has none after it is healed.
func TestFaultsShowAndHeal(t *testing.T) {
	if testing.Short() {
		t.Skip("injects every fault into real deployments, for a minute")
	}
	all := os.Getenv("TARE_TEST_ALL") != ""
	names := []string{"none", "envoy"}
	if all {
		names = append(names, "reference")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range faultCases {
				if c.meshed && name == "none" || c.name == "bandwidth" && name == "envoy" && !all { // 300 requests of each proxy
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					s := faultSubject(t, name)
					s.needs(c.fault)
					eventually(t, "no effect without the fault", func() bool { return !c.shows(s) })
					line := newTimeline(t, s, c.fault)
					must.OK(t, line.Run(t.Context(), time.Now(), time.Now().Add(time.Hour)))
					if done := line.Injected(); len(done) != 1 || len(done[0].Targets) != 1 {
						t.Fatalf("injected %+v", done)
					}
					eventually(t, "the fault has its effect", func() bool { return c.shows(s) })
					must.OK(t, line.Heal(t.Context(), true))
					if !c.stays {
						eventually(t, "the fault has healed", func() bool { return !c.shows(s) })
					}
					eventually(t, "requests succeed", func() bool { return !failing(s.send(8)) })
					if err := s.Broken(); err != nil {
						t.Errorf("the deployment is broken: %v", err)
					}
				})
			}
		})
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not so: %s", what)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

func newTimeline(t *testing.T, s subject, faults ...experiment.Fault) *timeline.Timeline {
	t.Helper()
	return timeline.New(faults, 1, "echo", s.Deployment, time.Now, func(result.Event) {})
}

func faultSubject(t *testing.T, name string) subject {
	t.Helper()
	path := must.Get(agent())(t)
	m := must.Get(mesh.Load(name))(t)
	p := local.New(local.Options{AgentPath: path, FetchProgram: func(ctx context.Context, name string) (string, string, error) {
		found, err := fetch.Find(ctx, name, fetch.Options{})
		return found.Path, found.Version, err
	}})
	d := must.Get(p.Deploy(t.Context(), platform.Spec{
		Trial:      plan.Trial{ID: "1-test-b1", Ordinal: 1, Block: 1, Treatment: "test"},
		Treatment:  plan.Treatment{ID: "test", Levels: experiment.Levels{Mesh: name, Replicas: 2, ResponseSize: 100, Connections: 1, Protocol: "http1"}},
		Topology:   app.Topology{Name: "test", Entry: "echo", Services: []app.Service{{Name: "echo"}}},
		Mesh:       m,
		Provenance: t.TempDir(),
	}))(t)
	platformtest.Removed(t, d)
	return subject{d, t}
}

func TestFaultsAreRefusedWithTheReason(t *testing.T) {
	for _, k := range experiment.FaultKinds() {
		f := []experiment.Fault{{Kind: k.Name, Ratio: 0.5, Rate: 1000, Delay: 1e6}}
		err := timeline.Check(f, platform.Faults{})
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "the platform cannot "+string(k.Ability)) {
			t.Errorf("%s on a platform that cannot: %v", k.Name, err)
		}
		// This machine supports it, or gives a reason.
		if err := timeline.Check(f, local.New(local.Options{}).Declare().Faults); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s on this machine: %v", k.Name, err)
		}
	}
}

// A trial that ends or is interrupted while a task is suspended resumes it: removal is quick.
func TestHealingWithoutAll(t *testing.T) {
	s := faultSubject(t, "none")
	line := newTimeline(t, s, experiment.Fault{Kind: "pause"}, experiment.Fault{Kind: "kill"})
	must.OK(t, line.Run(t.Context(), time.Now(), time.Now().Add(time.Hour)))
	must.OK(t, line.Heal(t.Context(), false))
	healed := map[string]bool{}
	for _, f := range line.Injected() {
		healed[f.Kind] = !f.Healed.IsZero()
	}
	if !healed["pause"] || healed["kill"] {
		t.Errorf("healed: %v", healed)
	}
	up := 0
	for _, v := range s.TaskFaults.Victims() {
		if v.Up {
			up++
		}
	}
	if up != 1 {
		t.Errorf("%d tasks run, want the one that was paused", up)
	}
}
