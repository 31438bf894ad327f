package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

// switching is the configuration of a proxy that takes over a version for all connections at one instant, some time after it got
// it. It answers 503 for a part of that time, and logs the instants.
type switching struct {
	version        int64
	delay, failing time.Duration
	admin, log     string
	inbound        [2]string // where it listens, and to what it forwards
	outbound       [2]string
}

func parseSwitching(r io.Reader) (c switching) {
	for s := bufio.NewScanner(r); s.Scan(); {
		words := append(strings.Fields(s.Text()), "", "", "")
		n, _ := strconv.ParseInt(words[1], 10, 64)
		switch words[0] {
		case "version":
			c.version = n
		case "delay":
			c.delay = time.Duration(n) * time.Millisecond
		case "failing":
			c.failing = time.Duration(n) * time.Millisecond
		case "admin":
			c.admin = words[1]
		case "log":
			c.log = words[1]
		case "inbound":
			c.inbound = [2]string{words[1], words[2]}
		case "outbound":
			c.outbound = [2]string{words[1], words[2]}
		}
	}
	return c
}

// switchingProxy is the program switching-proxy FILE.
func switchingProxy() {
	f, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	c := parseSwitching(f)
	var version, failing atomic.Int64 // of all connections; failing is 1 or 0
	version.Store(c.version)
	serve := func(route [2]string, outbound bool) {
		if route[0] == "" {
			return
		}
		host, _, _ := net.SplitHostPort(route[0])
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: route[1]})
		proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 256, DialContext: dialer.DialContext}
		if outbound {
			proxy.ModifyResponse = func(r *http.Response) error {
				r.Header.Set("x-tare-version", fmt.Sprintf("%d %s", version.Load(), route[1]))
				return nil
			}
		}
		log.Fatal(http.ListenAndServe(route[0], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if outbound && failing.Load() == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			proxy.ServeHTTP(w, r)
		})))
	}
	go serve(c.inbound, false)
	go serve(c.outbound, true)
	instants, err := os.OpenFile(c.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("unix", c.admin)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, next := time.Now(), parseSwitching(r.Body)
		go func() {
			time.Sleep(time.Until(got.Add(next.delay - next.failing)))
			if next.failing > 0 {
				failing.Store(1)
				time.Sleep(time.Until(got.Add(next.delay)))
			}
			version.Store(next.version)
			failing.Store(0)
			if next.outbound[0] != "" {
				fmt.Fprintf(instants, "%.3f\n", float64(time.Since(got))/1e6)
			}
		}()
	})))
}

const switchingDefinition = `name: switching
description: a proxy that takes a route after exactly N ms
provides: {l7: true}
local:
  protocols: [http1]
  sidecar:
    command: [%q, "${config}"]
    concurrency: 1
    options:
      delay: {default: "0", upTo: 60000, doc: "ms"}
      failing: {default: "0", upTo: 60000, doc: "ms of 503 before the switch"}
      log: {default: none, doc: "file"}
    reload: {url: "http://admin/reload", socket: "{{.AdminPath}}"}
    config: |
      version {{.Version}}
      admin {{.AdminPath}}
      delay {{.Options.delay}}
      failing {{.Options.failing}}
      log {{.Options.log}}
      {{- with .Inbound}}
      inbound {{$.IP}}:{{.Port}} {{.AppIP}}:{{.AppPort}}
      {{- end}}
      {{- range $o := .Outbound}}
      outbound {{$.IP}}:{{.Port}} {{range $i, $e := .Endpoints}}{{if not $i}}{{$e.IP}}:{{$e.Port}}{{end}}{{end}}
      {{- end}}
tasks:
- {plane: data, role: sidecar, component: load, service: load, container: sidecar}
- {plane: data, role: sidecar, container: sidecar}
`

// A real proxy takes each change for all connections at one instant, which it logs. Few and many connections, and requests that fail
// before it, have bounds around that instant.
func TestSwitchesAtLoggedInstants(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	dir := t.TempDir()
	program := must.Get(exec.LookPath("switching-proxy"))(t)
	definition := must.File(t, dir, "switching.yaml", fmt.Sprintf(switchingDefinition, program))
	variants := map[string]string{"after-7": "delay: 7", "after-40": "delay: 40", "after-67": "delay: 67, failing: 60"}
	var meshes []string
	for name, options := range variants {
		meshes = append(meshes, fmt.Sprintf("%s: {from: switching, options: {%s, log: %s}}", name, options, filepath.Join(dir, name)))
	}
	file := must.File(t, dir, "switches.yaml", fmt.Sprintf(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: switches}
meshes: {%s}
factors: {mesh: [after-7, after-40, after-67], rate: [1000], connections: [4, 64]}
changes: {every: 160ms, count: 30}
validity: {lateness: 5s, rateShortfall: 0.9, errorRatio: 0.9}
phases: {warmup: 1s, measure: 6s, drain: 500ms}
blocks: 1
`, strings.Join(meshes, ", ")))
	var r answer.Report
	for n := range 3 { // a busy machine makes trials invalid
		stdout, stderr, code := tareIn(t, "", "run", file, "--mesh", definition, "--plain", "--format", "json", "--out", filepath.Join(dir, fmt.Sprint("run", n)))
		r = answer.Report{}
		must.OK(t, json.Unmarshal([]byte(stdout), &r))
		if len(r.Treatments) != 6 {
			t.Fatalf("exit code %d, %d treatments:\n%s", code, len(r.Treatments), stderr)
		}
		if r.Count.Used >= r.Count.Planned-1 {
			break
		}
		t.Attr("disturbed", fmt.Sprintf("run %d: %+v", n+1, r.Count))
	}
	const transport = 5 // ms at most, on a busy machine, from tare to the proxy
	measured := 0
	for _, tr := range r.Treatments {
		name := fmt.Sprint(tr.Factors["mesh"])
		if tr.N == 0 {
			continue
		}
		measured++
		var logged []float64
		for line := range strings.Lines(string(must.Get(os.ReadFile(filepath.Join(dir, name)))(t))) {
			logged = append(logged, must.Get(strconv.ParseFloat(strings.TrimSpace(line), 64))(t))
		}
		truth := stats.Quantile(logged, 0.5)
		for _, of := range []string{"first_new", "last_old"} {
			low, known := tr.Metrics["change_"+of+"_ms/route-changed"]
			high := tr.Metrics["change_"+of+"_most_ms/route-changed"]
			t.Logf("%s: %s at least %.2f, at most %.2f ms, logged %.2f (%d)", tr.ID, of, low.Estimate, high.Estimate, truth, len(logged))
			if !known || low.Estimate > truth+transport || high.Estimate < truth {
				t.Errorf("%s: %s at least %.2f, at most %.2f ms (%v), and the proxy switched after %.2f", tr.ID, of, low.Estimate, high.Estimate, known, truth)
			}
		}
		if fails := tr.Metrics["change_failed_requests/route-changed"].Estimate; (name == "after-67") != (fails > 0) {
			t.Errorf("%s: %v requests fail per change", tr.ID, fails)
		}
	}
	if measured < 4 {
		t.Errorf("%d of 6 treatments have a valid trial", measured)
	}
}
