package session

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/must"
)

// Two programs are named by what differs between their command lines.
func TestNamesOfPrograms(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"./server-old --port {port}", "./server-new --port {port}", "server-old server-new"},
		{"python3 sort-a.py 5", "python3 sort-b.py 5", "sort-a sort-b"},
		{"python3 -m http.server {port}", "python3 -O -m http.server {port}", "http-server http-server-o"},
		{"env GOGC=50 ./server {port}", "env GOGC=100 ./server {port}", "gogc-50 gogc-100"},
		{"gzip -1 -k data", "gzip -9 -k data", "gzip-1 gzip-9"},
		{"/good/server {port}", "./server {port}", "good-server server"},
		{"/runner/temp/base/bin/server {port}", "./bin/server {port}", "base-bin-server bin-server"},
		{"/opt/v0.12.16/gojq .", "/opt/v0.12.17/gojq .", "v0-12-16-gojq v0-12-17-gojq"},
		{"./old build", "./new build", "old new"},
		{"sh -c 'i=0; loop 20 times'", "sh -c 'i=0; loop 30 times'", "sh-20 sh-30"},
		{"./a", "./a", " "},
		{"/tmp/tmp.x1/new/bin/srv {port}", "/tmp/tmp.x1/old/bin/srv {port}", "new-bin-srv old-bin-srv"},
		{"/tmp/tmp.x1/a/srv.py {port}", "/tmp/tmp.x1/b/srv.js {port}", "srv-py srv-js"},
	} {
		names := differingNames(strings.Fields(c.a), strings.Fields(c.b))
		if got := strings.Join(names[:], " "); got != c.want {
			t.Errorf("%s and %s: %q, want %q", c.a, c.b, got, c.want)
		}
	}
	for command, want := range map[string]string{"python3 -u sort-b.py": "sort-b", "nginx -c my.conf": "nginx", "node server.js": "server", "java -jar app-1.jar": "app-1", "./data data.json": "data", "python3 -m http.server {port}": "http-server", "./proxy-1.30 {port}": "proxy-1-30", "php -S 127.0.0.1:{port}": "php"} {
		if got := programName(strings.Fields(command), ""); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

func TestABOfPrograms(t *testing.T) {
	p := NewProgram("", nil)
	o := AB{Commands: [][]string{{"./server-old", "--port", "{port}"}, {"./server-new", "--port", "{port}"}}, Rate: "70", Request: Request{Path: "/a", Method: "PUT", Body: []byte("b"), Headers: []string{"X: y"}}, Ready: "/ready", MaxTime: 10 * time.Minute,
		Set: []string{"b.env.A=x", "phases.measure=2s"}}
	s := must.Get(p.AB(t.Context(), o))(t)
	e := s.Experiment
	var ids []string
	for _, treatment := range s.Plan.Treatments {
		ids = append(ids, treatment.ID)
	}
	if want := []string{"server-old", "server-old-control", "server-new"}; !slices.Equal(ids, want) {
		t.Errorf("treatments %q, want %q", ids, want)
	}
	if e.Applications["server-new"].Env["A"] != "x" || e.Applications["server-old"].Env != nil || e.Phases.Measure != experiment.Duration(2*time.Second) {
		t.Errorf("settings: %+v", e.Applications)
	}
	if r := e.Load.Requests; len(r) != 1 || r[0].Path != "/a" || r[0].Method != "PUT" || r[0].Body != "b" || e.Load.Headers["X"] != "y" {
		t.Errorf("load: %+v", e.Load)
	}
	if len(e.Decide.Gates) != 1 || e.Decide.Gates[0] != DefaultProgramGate || e.Order != experiment.OrderInterleaved {
		t.Errorf("gates %q, order %s", e.Decide.Gates, e.Order)
	}
	for want, change := range map[string]func(*AB){
		"1 programs":           func(o *AB) { o.Commands = o.Commands[:1] },
		"3 programs":           func(o *AB) { o.Commands = append(o.Commands, o.Commands[0]) },
		"without a mesh":       func(o *AB) { o.Mesh = []string{"envoy"} },
		"on this machine":      func(o *AB) { o.Platform = "kubernetes" },
		"is not a number":      func(o *AB) { o.Rate = "fast" },
		"unknown placeholder":  func(o *AB) { o.Commands = [][]string{{"./a"}, {"./b", "${nowhere}"}} },
		"are for two programs": func(o *AB) { o.Commands = nil },
	} {
		bad := o
		change(&bad)
		must.Fail(t, must.Err(p.AB(t.Context(), bad)), want)
	}
}
