package session

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
)

// flagsOf are the options of tare weigh without flags.
func flagsOf(change func(*Weigh)) Weigh {
	o := Weigh{Protocol: "http1", Meshes: []string{"envoy"}, Connections: 4, Time: time.Minute}
	if change != nil {
		change(&o)
	}
	return o
}

// The file of tare weigh is one that tare run reads, with what the command line has.
func TestWeighFile(t *testing.T) {
	p := NewProgram("", nil)
	for name, tc := range map[string]struct {
		args  []string
		flags func(*Weigh)
		want  []string
	}{
		"port":        {[]string{"python3", "-m", "http.server", "{port}"}, nil, []string{"name: weigh-http-server", "- ${port}", "mesh: [none, envoy]", "control: true", "order: interleaved"}},
		"quoted port": {[]string{"./My Server!", "--listen=${host}:{port}"}, nil, []string{"name: weigh-my-server", "- --listen=${host}:${port}"}},
		"running":     {nil, func(o *Weigh) { o.URL = "http://127.0.0.1:8080/items?a=1" }, []string{"url: http://127.0.0.1:8080\n", "route: ['/items?a=1']"}},
		"flags": {[]string{"./server"}, func(o *Weigh) {
			o.Rate, o.Path, o.Ready, o.Protocol, o.Meshes = 70, "/a", "/healthz", "http2", []string{"consul", "none", "consul"}
		}, []string{"rate: [70]", "route: [/a]", "ready: /healthz", "protocol: [http2]", "mesh: [none, consul]"}},
		"headers": {[]string{"./server"}, func(o *Weigh) { o.Headers = []string{"Host: shop.example:80", "A:${env:B}"} }, []string{"load:\n  headers:\n    A: ${env:B}\n    Host: shop.example:80\n"}},
		"a sidecar": {[]string{"./server"}, func(o *Weigh) {
			o.Meshes, o.Sidecars = nil, []string{`./My-Proxy --listen {listen} --to={upstream.host} '{{x}} y'`, "python3 p.py {listen} {upstream}", "nginx", "./nginx {listen}"}
		}, []string{"mesh: [none, my-proxy, p, nginx, nginx-2]", "my-proxy:\n    sidecar:\n", "./My-Proxy, --listen, '${listen}', '--to=${upstream.host}', '{{\"{{\"}}x}} y'"}},
		"a body": {[]string{"./server"}, func(o *Weigh) { o.Path, o.Body = "/v1/x?y=1", []byte(`{"n": 1}`) }, []string{"load:\n  requests:\n    - path: /v1/x?y=1\n      body: '{\"n\": 1}'\n"}},
		"a form": {[]string{"./server"}, func(o *Weigh) { o.Method, o.Body = "PUT", []byte("a=\xff") }, []string{"Content-Type: application/x-www-form-urlencoded", "- method: PUT\n      body: base64:YT3/\n"}},
		"gateways": {[]string{"./server"}, func(o *Weigh) {
			o.Meshes, o.Gateways = nil, []string{"nginx", "envoy", "envoy-tcp", "./front {listen} {upstream} {dir}", "nginx"}
		}, []string{"mesh: [none, gateway-nginx, gateway-envoy, gateway-envoy-tcp, gateway-front, gateway-nginx-2]", "gateway-nginx:\n    from: nginx\n    gateway: {}\n", "gateway-envoy:\n    from: envoy-plaintext\n",
			"from: envoy-tcp\n    gateway: {}\n    options:\n      mtls: \"false\"\n", "command: [./front, '${listen}', '${upstream}', '${dir}']"}},
		"a variant": {[]string{"node", "server.js"}, func(o *Weigh) {
			o.Meshes, o.Env, o.Prefix, o.Beside = nil, []string{"NODE_OPTIONS=--require ./otel.js", "AT={otelcol.url}"}, "nice -n 1", []string{"otelcol --listen '{host}:{port}' {app.port}", "./otelcol"}
		}, []string{"application: [plain, nice-otelcol-otelcol-2-node-options-at]", "mesh: [none]", "baseline: {application: plain}", "from: plain", "NODE_OPTIONS: --require ./otel.js", "AT: ${otelcol.url}",
			"prefix: [nice, -n, \"1\"]", "command: [otelcol, --listen, '${host}:${port}', '${app.port}']", "name: otelcol-2"}},
		"a literal": {[]string{"sh", "-c", "echo $${port} {port}"}, nil, []string{"echo $${port} ${port}"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := must.Get(flagsOf(tc.flags).file(tc.args))(t)
			text := must.Get(w.yaml("kept.yaml"))(t)
			for _, want := range append(tc.want, "tare run kept.yaml") {
				must.Contain(t, string(text), want)
			}
			study := must.Get(p.studyOf(t.Context(), w, "kept.yaml"))(t)
			first := must.Get(study.Experiment.TopologyOf(study.Plan.Treatments[0].Levels))(t)
			if dir := first.Services[0].Dir; len(tc.args) > 0 && !filepath.IsAbs(dir) {
				t.Errorf("the directory is %q", dir)
			}
		})
	}
}

// A mesh of a file is run by the name that its definition has, and the kept file's command has the definition.
func TestWeighWithADefinition(t *testing.T) {
	dir := t.TempDir()
	text := must.Get(os.ReadFile("../experiment/mesh/definitions/envoy.yaml"))(t)
	file := filepath.Join(dir, "my mesh.yaml")
	must.OK(t, os.WriteFile(file, bytes.Replace(text, []byte("name: envoy\n"), []byte("name: mine\n"), 1), 0o600))
	w := must.Get(flagsOf(func(o *Weigh) { o.Meshes = []string{file} }).file([]string{"./server"}))(t)
	kept, err := w.yaml("kept.yaml")
	if want := "#     tare run kept.yaml --mesh '" + file + "'\n"; err != nil || !strings.Contains(string(kept), want) || !strings.Contains(string(kept), "mesh: [none, mine]") {
		t.Errorf("%v, no %q in\n%s", err, want, kept)
	}
	if _, err := flagsOf(func(o *Weigh) { o.Meshes = []string{filepath.Join(dir, "none.yaml")} }).file([]string{"./server"}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestWeighRefuses(t *testing.T) {
	for want, tc := range map[string]struct {
		args  []string
		flags func(*Weigh)
	}{
		"no program":                      {nil, nil},
		"and --url":                       {[]string{"./server"}, func(o *Weigh) { o.URL = "http://127.0.0.1:1" }},
		"--time 1s is":                    {[]string{"./server"}, func(o *Weigh) { o.Time = time.Second }},
		"the baseline":                    {[]string{"./server"}, func(o *Weigh) { o.Meshes = []string{"none"} }},
		"--method and --data are of HTTP": {[]string{"./server"}, func(o *Weigh) { o.Protocol, o.Method = "grpc", "PUT" }},
		"Name: value":                     {[]string{"./server"}, func(o *Weigh) { o.Headers = []string{"shop.example"} }},
		"without a mesh":                  {[]string{"./server"}, func(o *Weigh) { o.Env = []string{"A=b"} }},
		"that tare starts":                {nil, func(o *Weigh) { o.URL, o.Meshes, o.Prefix = "http://127.0.0.1:1", nil, "nice" }},
		"not NAME=value":                  {[]string{"./server"}, func(o *Weigh) { o.Meshes, o.Env = nil, []string{"A"} }},
		"--beside is empty":               {[]string{"./server"}, func(o *Weigh) { o.Meshes, o.Beside = nil, []string{" "} }},
		"//xxxxx@h/ is a URL":             {[]string{"http://u:p ss@h/"}, nil},
		"--rate is 0":                     {[]string{"./server"}, func(o *Weigh) { o.RateChosen = true }},
		"no field {upstraem}":             {[]string{"./server"}, func(o *Weigh) { o.Meshes, o.Sidecars = nil, []string{"proxy {listen} {upstraem}"} }},
		"no field {wait}":                 {[]string{"./server"}, func(o *Weigh) { o.Meshes, o.Gateways = nil, []string{"proxy {listen} {upstream} {wait}"} }},
		"the program has no field {prot}": {[]string{"./server", "--port={prot}"}, nil},
		"--beside has no field {Port}":    {[]string{"./server"}, func(o *Weigh) { o.Meshes, o.Beside = nil, []string{"agent {Port}"} }},
		"--rate is -1":                    {[]string{"./server"}, func(o *Weigh) { o.Rate = -1 }},
	} {
		must.Fail(t, must.Err(flagsOf(tc.flags).file(tc.args)), want)
	}
	words := must.Get(programWords([]string{"./server", "{port}", "${PORT}", "{http_code}", "sh {prot}"}))(t)
	if want := []string{"./server", "${port}", "${PORT}", "{http_code}", "sh {prot}"}; !slices.Equal(words, want) {
		t.Errorf("%q, want %q", words, want)
	}
}

// Mistakes in the command line are reported with flags, not with fields of a file that nobody wrote.
func TestWeighNamesFlags(t *testing.T) {
	p := NewProgram("", nil)
	for name, tc := range map[string]struct {
		flags func(*Weigh)
		want  string // message and hint
	}{
		"connections": {func(o *Weigh) { o.Connections = 0 }, "--connections: 0 is not between 1 and 32768|"},
		"path":        {func(o *Weigh) { o.Path = "foo" }, `--path: "foo" is not a path|write a path such as /pay, or several with commas between: /a,/b`},
		"protocol":    {func(o *Weigh) { o.Protocol = "x" }, `--protocol: unknown protocol "x"|known: http1, http2, grpc, tcp, websocket`},
		"ready":       {func(o *Weigh) { o.Ready = "x" }, `--ready: "x" is not a path|write a path such as /healthz`},
		"rate":        {func(o *Weigh) { o.Rate = 1e12 }, "--rate: 1000000000000 requests per second is not above 0 and at most 10000000|"},
		"header":      {func(o *Weigh) { o.Headers = []string{"a b: x"} }, `--header: "a b" is not the name of a header|`},
		"variable":    {func(o *Weigh) { o.Meshes, o.Env = nil, []string{"1A=b"} }, `--env: "1A" is not the name of an environment variable|letters, digits and _, not beginning with a digit`},
		"beside": {func(o *Weigh) { o.Meshes, o.Beside = nil, []string{"nope {foo.port}"} },
			"--beside: unknown placeholder ${foo.port}|known: port, host, app.url, app.host, app.port, nope.url, nope.host, nope.port, app.pid; $${ stands for ${ itself"},
		"address": {func(o *Weigh) { o.URL = "http://10.1.1.1:80" }, `--url: "http://10.1.1.1:80" is not on an IPv4 loopback address of this machine|write the address without a path; --path has the path`},
	} {
		o, args := flagsOf(tc.flags), []string{"./server"}
		if o.URL != "" {
			args = nil
		}
		_, err := p.Weigh(t.Context(), o, args)
		mistakes, ok := errors.AsType[strict.Problems](err)
		if !ok || len(mistakes) != 1 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := mistakes[0].Error() + "|" + mistakes[0].Tip; got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
	for text, want := range map[string]string{
		"if you are sure that the cluster is not in use, set platform.inUse: allow":   "if you are sure that the cluster is not in use, add --in-use",
		"start the program first, or let tare start it: write command instead of url": "start the program first, or let tare start it: write it after -- in place of --url",
		"meshes.istio: there is no option":                                            "--option: there is no option",
		"`tare list meshes` prints the meshes":                                        "`tare list meshes` prints the meshes",
		"raise load.workers":                                                          "raise load.workers of the kept file (tare run FILE --set)",
		"have a longer warm-up: `tare run FILE --set phases.warmup=9s`":               "have a longer warm-up: `tare run FILE --set phases.warmup=9s`",
		"reserve a CPU (platform.cpus: {load: …})":                                    "reserve a CPU (platform.cpus: {load: …} in the kept file)",
		"raise phases.warmup; phases.prewarm: 0s measures a start":                    "raise phases.warmup of the kept file (tare run FILE --set); --cold measures a start",
	} {
		if got := hint.Of(InFlags(hint.New(text, "x"))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The reference proxy takes the place of Envoy for HTTP/1.1 alone, and only where nothing else was chosen.
func TestFirstLooks(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Weigh)
		want   bool
	}{
		"default":    {nil, true},
		"a rate":     {func(o *Weigh) { o.Rate = 20 }, true},
		"running":    {func(o *Weigh) { o.URL = "http://127.0.0.1:8080" }, true},
		"nginx":      {func(o *Weigh) { o.Meshes = []string{"envoy", "nginx"} }, false},
		"a gateway":  {func(o *Weigh) { o.Meshes, o.Gateways = nil, []string{"envoy"} }, false},
		"options":    {func(o *Weigh) { o.Options = []string{"rbac=true"} }, false},
		"HTTP/2":     {func(o *Weigh) { o.Protocol = "http2" }, false},
		"TLS":        {func(o *Weigh) { o.TLS = true }, false},
		"a variable": {func(o *Weigh) { o.Meshes, o.Env = nil, []string{"A=b"} }, false},
	} {
		args := []string{"./server"}
		if name == "running" {
			args = nil
		}
		o := flagsOf(tc.change)
		w := &WeighStudy{o: o, file: must.Get(o.file(args))(t)}
		if got := w.firstLooks(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
		if !tc.want {
			continue
		}
		w.Study = &Study{Program: NewProgram("", nil)}
		look := must.Get(w.lookStudy(t.Context()))(t)
		if all := look.Plan.Treatments; len(all) != 2 || all[1].Levels.Mesh != "reference" || look.Plan.MinBlocks != 3 {
			t.Errorf("%s: %d blocks of %+v", name, look.Plan.MinBlocks, all)
		}
	}
}

// The file fits the program: long slices for slow answers, fewer blocks for a slow start.
func TestWeighFit(t *testing.T) {
	for rate, want := range map[float64]float64{0: 1, 0.2: 0.5, 1: 1, 1.7: 1.5, 99: 70, 250: 200, 1000: 1000} {
		if got := roundDown(rate); got != want {
			t.Errorf("%v: %v, want %v", rate, got, want)
		}
	}
	for p95, want := range map[float64]string{1: "interleaved 100ms", 30: "interleaved 250ms", 100: "interleaved 500ms", 900: "balanced"} {
		w := &weighFile{Order: experiment.OrderInterleaved}
		w.slice(p95)
		got := w.Order
		if w.Slices != nil {
			got += " " + w.Slices.Length.String()
		} else if got == experiment.OrderInterleaved {
			got += " 100ms"
		}
		if got != want {
			t.Errorf("p95 %v ms: %s, want %s", p95, got, want)
		}
	}
	quick, slow := blocksWithin(time.Minute, 3, 500*time.Millisecond), blocksWithin(time.Minute, 3, 10*time.Second)
	if quick != 6 || slow != 3 || blocksWithin(time.Hour, 3, 0) != maxWeighBlocks {
		t.Errorf("%d blocks, with a slow start %d", quick, slow)
	}
}

// Answers of a proxy are no capacity of a program that fails, or has ended.
func TestWeighSearchOfAFailingProgram(t *testing.T) {
	t.Parallel()
	var requests, dead atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := requests.Add(1); dead.Load() > 0 || n%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	p := load.Profile{Targets: []string{server.URL}, Connections: 4, Warmup: 100 * time.Millisecond, Measure: 500 * time.Millisecond, Drain: time.Second, Timeout: 10 * time.Second, Workers: 1, ExpectSize: -1}
	s := &search{}
	r := must.Get(s.send(t.Context(), p))(t)
	if got, half := succeeded(r), r.Rate/2; math.Abs(got-half) > 0.01*half {
		t.Errorf("%v of %v requests/s succeeded, want half", got, r.Rate)
	}
	dead.Store(1)
	_, err := s.most(t.Context(), p)
	must.Fail(t, err, "503", "every request failed")
	s.deployment = &platform.Deployment{Broken: exitedTask{}.Err}
	_, err = s.most(t.Context(), p)
	must.Fail(t, err, "exit status 3", "the program has ended")
}

type exitedTask struct{}

func (exitedTask) Err() error { return errors.New("app-0/app is gone: exit status 3") }

// A stall during the first load of the search does not decide the rate.
func TestWeighSearchAfterAStall(t *testing.T) {
	t.Parallel()
	var turn sync.Mutex
	var end time.Time // of the stall
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn.Lock()
		defer turn.Unlock()
		if end.IsZero() {
			end = time.Now().Add(searchTime * 5 / 4)
		}
		if time.Now().Before(end) && r.Context().Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
	}))
	defer server.Close()
	s := &search{}
	p := load.Profile{Targets: []string{server.URL}, Connections: 4, Warmup: searchTime / 5, Measure: searchTime, Drain: time.Second, Timeout: 10 * time.Second, Workers: 1, ExpectSize: -1}
	first, err := s.send(t.Context(), p)
	if err != nil || first.Rate >= slowCapacity {
		t.Fatalf("%v requests/s during the stall, %v", first.Rate, err)
	}
	turn.Lock()
	end = time.Time{} // a stall again
	turn.Unlock()
	if got, err := s.most(t.Context(), p); err != nil || got < slowCapacity {
		t.Errorf("%v requests/s, %v", got, err)
	}
}

// An application on a cluster has an experiment file with the same fields that a person would write.
func TestWeighOnACluster(t *testing.T) {
	o := Weigh{Manifests: []string{"testdata"}, Entry: "web", Meshes: []string{"istio"}, Connections: 4, Time: time.Minute, Protocol: app.HTTP1, Request: Request{Path: "/items"}}
	w := must.Get(o.file(nil))(t)
	text := must.Get(w.yaml("x.yaml"))(t)
	must.Contain(t, string(text), "platform:\n  kind: kubernetes\n", "entry: web", "mesh: [none, istio]", "rate: [50]", "route: [/items]", "name: weigh-web")
	for _, o := range []Weigh{
		{Namespace: "shop", Yes: true}, {Manifests: []string{"a"}, InPlace: true}, {Namespace: "shop", Options: []string{"envoy"}}, {Namespace: "shop", URL: "http://127.0.0.1:1"}, {Namespace: "shop", Manifests: []string{"a"}}, {Namespace: "shop", Ready: "/x"},
		{Namespace: "shop", Rate: -1}, {Namespace: "shop", Meshes: []string{"none"}}, {Entry: "web", URL: "http://127.0.0.1:1"}, {InPlace: true},
	} {
		if _, err := o.file(nil); err == nil || hint.Of(err) == "" {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
