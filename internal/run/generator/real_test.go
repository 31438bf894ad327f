package generator

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// optional are the generators whose tests are skipped without a program. No package
// registry has the first. The other takes minutes to build, in make e2e-all only.
var optional = map[string]bool{"wrk2": true,
	"oha": os.Getenv("TARE_TEST_ALL") == ""}

// server responds with 1 kB over HTTP/1.1 and cleartext HTTP/2, and counts requests.
func server(t *testing.T) (url string, hits *atomic.Int64) { return serverOf(t, 1) }

// serverOf accepts one major version of HTTP and responds to other versions with an error.
func serverOf(t *testing.T, version int) (url string, hits *atomic.Int64) {
	hits = new(atomic.Int64)
	page := []byte(strings.Repeat("x", 1024))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		if r.ProtoMajor != version {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
		}
		_, _ = w.Write(page)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL + "/", hits
}

// run starts a generator as the platform does and parses its output while it runs.
func run(t *testing.T, g Generator, p load.Profile) result.Load {
	t.Helper()
	cmd := must.Get(g.Command(p))(t)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Log = w, filepath.Join(t.TempDir(), "log")
	p.Start = time.Now()
	process := must.Get(proc.Start(t.Context(), cmd))(t)
	ended := make(chan error, 1)
	go func() {
		err := process.Wait()
		_ = w.Close()
		ended <- err
	}()
	l, err := g.Parse(r, p, nil)
	_, _ = io.Copy(io.Discard, r)
	if exit := <-ended; exit != nil || err != nil {
		t.Fatalf("%s: %v, %v\n%s", cmd, exit, err, strings.Join(process.Tail(20), "\n"))
	}
	return l
}

// Every generator sends the Host of the profile in each of its requests, over each protocol.
func TestHostOfRealGenerators(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real generators")
	}
	for _, g := range Others(GeneratorsDir()) {
		t.Run(g.Name(), func(t *testing.T) {
			if _, err := g.Abilities().Find(t.Context()); err != nil {
				if !optional[g.Name()] {
					t.Fatalf("%v\nhint: make generators", err)
				}
				t.Logf("not installed: %v", err)
				return
			}
			for _, protocol := range []string{load.ProtocolHTTP1, load.ProtocolHTTP2} {
				var mu sync.Mutex
				hosts := map[string]int{}
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					hosts[r.Host]++
				}))
				s.Config.Protocols = new(http.Protocols)
				s.Config.Protocols.SetHTTP1(true)
				s.Config.Protocols.SetUnencryptedHTTP2(true)
				s.Start()
				p := load.Profile{Targets: []string{s.URL + "/"}, Headers: []string{"Host: localhost", "Host: shop.example"}, Protocol: protocol, Connections: 2, Rate: 50,
					Timeout: time.Second, Measure: time.Second, ExpectSize: -1}
				if g.Name() == "wrk" {
					p.Rate = 0
				}
				if _, err := g.Command(p); !errors.Is(err, errors.ErrUnsupported) {
					run(t, g, p)
					mu.Lock()
					if hosts["shop.example"] == 0 || len(hosts) > 1 {
						t.Errorf("%s: %v", protocol, hosts)
					}
					mu.Unlock()
				}
				s.Close()
			}
		})
	}
}

// TestRealGenerators runs every installed generator at a modest rate for two seconds.
func TestRealGenerators(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real generators")
	}
	for _, g := range Others(GeneratorsDir()) {
		t.Run(g.Name(), func(t *testing.T) {
			found, err := g.Abilities().Find(t.Context())
			if err != nil && optional[g.Name()] {
				t.Logf("not installed: %v", err)
				return
			}
			if err != nil {
				t.Fatalf("%v\nhint: make generators", err)
			}
			t.Logf("%s %s", found.Path, found.Version)
			p := load.Profile{Connections: 4, Rate: 100, Timeout: time.Second, Warmup: 500 * time.Millisecond,
				Measure: 1500 * time.Millisecond, Tail: 200 * time.Millisecond, ExpectSize: -1}
			url, hits := server(t)
			if g.Name() == "wrk" {
				p.Rate = 0
			}
			p.Targets = []string{url}
			whole := run(t, g, p)
			judge(t, whole, p, hits.Load())

			p.HDRPath = filepath.Join(t.TempDir(), "latency.hdr")
			cut := run(t, g, p)
			judge(t, cut, p, hits.Load())
			if _, err := os.Stat(p.HDRPath); errors.Is(err, os.ErrNotExist) {
				if !has(cut.Warnings, "there is no interval log") {
					t.Error("neither an interval log nor a word on why there is none")
				}
				return
			}
			holds(t, p, cut)
		})
	}
}

// TestRealGeneratorsSpeakHTTP2 checks that all requests arrive over cleartext HTTP/2.
func TestRealGeneratorsSpeakHTTP2(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real generators")
	}
	for _, g := range Others(GeneratorsDir()) {
		p := load.Profile{Connections: 2, Rate: 40, Timeout: time.Second, Measure: time.Second, ExpectSize: -1, Protocol: "http2"}
		url, hits := serverOf(t, 2)
		p.Targets = []string{url}
		if _, err := g.Command(p); errors.Is(err, errors.ErrUnsupported) || optional[g.Name()] {
			continue
		}
		t.Run(g.Name(), func(t *testing.T) { judge(t, run(t, g, p), p, hits.Load()) })
	}
}

// judge checks a result against the server's counts and for consistency.
func judge(t *testing.T, l result.Load, p load.Profile, hits int64) {
	t.Helper()
	asked := p.Rate * p.Measure.Seconds()
	ok := l.Classes[string(load.OK)]
	if p.Rate > 0 && (float64(ok) < 0.7*asked || float64(ok) > 1.3*asked) {
		t.Errorf("%d answers in the measure window, asked for %.0f: %+v", ok, asked, l)
	}
	if d := difftest.Wrong("ok < 1", ok < 1, "ok > hits", ok > hits, "l.Completed < 1", l.Completed < 1, "l.Completed > hits", l.Completed > hits); d != "" {
		t.Errorf("%s: %d answers of class 2xx, %d completed, the server saw %d", d, ok, l.Completed, hits)
	}
	if l.Classes[string(load.Conn)]+l.Classes[string(load.Timeout)]+l.Classes[string(load.Status)] > ok/10 {
		t.Errorf("classes %v, errors %v", l.Classes, l.Errors)
	}
	if l.Published == nil {
		t.Fatal("no latency")
	}
	for _, d := range l.Published {
		saneLatency(t, d, p)
	}
	if i, j := indexOf(l.Published, ofResponse), indexOf(l.Published, ofService); i >= 0 && j >= 0 {
		if response, service := l.Published[i].MeanMS, l.Published[j].MeanMS; *response < *service {
			t.Errorf("mean response time %v ms is below the mean service time %v ms", *response, *service)
		}
	}
	t.Logf("%s %s: %d of 2xx, %s; %q", l.Generator, l.Version, ok, distributionLine(l.Published[0]), l.Warnings)
}

// saneLatency: min <= mean <= max, quantiles in order, nothing longer than the run.
func saneLatency(t *testing.T, d result.Latency, p load.Profile) {
	t.Helper()
	if d.Meaning == "" && d.Of != ofFirstByte {
		t.Errorf("latency %q has no meaning", d.Of)
	}
	last := 0.0
	for _, q := range d.Quantiles {
		if q.MS < last {
			t.Errorf("%s: quantile %v is %v ms, below the one before", d.Of, q.Q, q.MS)
		}
		last = q.MS
	}
	if d.MeanMS != nil && d.MaxMS != nil && (*d.MeanMS > *d.MaxMS || *d.MaxMS <= 0) {
		t.Errorf("%s: mean %v, max %v ms", d.Of, *d.MeanMS, *d.MaxMS)
	}
	if run := (p.Warmup + p.Measure + p.Tail + 12*time.Second).Seconds() * 1e3; last > run {
		t.Errorf("%s: %v ms is longer than the run", d.Of, last)
	}
}

// holds compares the interval log with the counts. The log has warm-up and tail too.
func holds(t *testing.T, p load.Profile, l result.Load) {
	t.Helper()
	f := must.Get(os.Open(p.HDRPath))(t)
	defer f.Close()
	tags := map[string]int64{}
	must.OK(t, hdrlog.ReadSeconds(f, func(_ int, tag string, h *hdrhistogram.PackedHistogram) error {
		tags[tag] += h.TotalCount()
		return nil
	}))
	ok := l.Classes[string(load.OK)]
	if n := max(tags[load.TagResponse+string(load.OK)], tags[load.TagService+string(load.OK)]); n < ok {
		t.Errorf("the interval log holds %v, the window %d", tags, ok)
	}
}
