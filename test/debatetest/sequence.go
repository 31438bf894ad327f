// Package debatetest writes sequences in the layout of the Great Sidecar
// Debate's tool, with known figures: metrics CSV files and logs of load
// generators. It shares no code with the importer it tests.
package debatetest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
	"time"
)

// Sequence is the runs of one mesh. The zero value of an option is the debate's own.
type Sequence struct {
	Mesh  string // linkerd, ambient, istio or unmeshed: which columns are filled
	Dir   string // name of the directory, default Mesh
	Rates []int
	Runs  int
	First int // number of the first run: 1 in the debate's data, 0 in its newer code
	Seed  uint64
	// Nodes adds the node columns of the newer header.
	Nodes int
	// Oha writes oha's logs instead of wrk2's, in this form: json, repr or bytes.
	Oha string
	// LF ends lines without a carriage return.
	LF bool
	// Pods is the number of load generators, by default 3.
	Pods int
	// Seconds of load, by default 300.
	Seconds int
	// Refresh is the number of samples with the same reading, by default 3.
	Refresh int
	// Change alters a file before it is written. Nil bytes leave it out.
	Change func(name string, b []byte) []byte
}

// Truth is the cost of a run in the steady state: cores and bytes of each column.
type Truth struct{ Cores, Bytes map[string]float64 }

// Start is the start of every sequence.
var Start = time.Date(2025, 3, 27, 17, 0, 0, 0, time.UTC)

// components of each mesh: idle cores, cores per request/s, MiB.
var components = map[string]map[string][3]float64{
	"": {
		"face app": {0.001, 0.0040, 60}, "smiley app": {0.001, 0.0006, 25}, "color app": {0.001, 0.0004, 20},
		"faces-gui app": {0, 0, 7}, "load app": {0, 0.0001, 20},
	},
	"linkerd": {
		"face mesh": {0.02, 0.0013, 20}, "smiley mesh": {0.02, 0.0005, 14}, "color mesh": {0.02, 0.0003, 14}, "load mesh": {0.002, 0.00025, 9},
		"linkerd-destination mesh": {0.010, 0, 118}, "linkerd-identity mesh": {0.002, 0, 45}, "linkerd-proxy-injector mesh": {0.002, 0, 60},
	},
	"ambient":  {"ztunnel mesh": {0.01, 0.0020, 37}, "waypoint mesh": {0.02, 0.0023, 190}, "istiod mesh": {0.004, 0, 120}},
	"istio":    {"face mesh": {0.05, 0.0024, 150}, "smiley mesh": {0.05, 0.0010, 120}, "color mesh": {0.05, 0.0008, 120}, "istio-ingressgateway mesh": {0.01, 0.0001, 60}, "istiod mesh": {0.01, 0, 200}},
	"unmeshed": {},
}

// remainders are the parts of an aggregate without a column.
var remainders = map[string][3]float64{"k8s": {0.05, 0.001, 600}, "gke": {0.02, 0, 230}}

var elements = strings.Split("faces,load,iperf,gke,k8s,data-plane,control-plane,mesh,non-mesh,business,overhead,total,"+

	"load app,load mesh,wrk2 app,wrk2 mesh,iperf app,iperf mesh,iperf-client app,iperf-client mesh,faces-gui app,faces-gui mesh,"+
	"face app,face mesh,smiley app,smiley mesh,smiley2 app,smiley2 mesh,smiley3 app,smiley3 mesh,color app,color mesh,color2 app,color2 mesh,"+
	"color3 app,color3 mesh,linkerd-destination mesh,linkerd-identity mesh,linkerd-proxy-injector mesh,istiod mesh,istio-ingressgateway mesh,waypoint mesh,ztunnel mesh", ",")

// sums of the debate's aggregates.
var sums = []struct {
	name  string
	parts []string
}{{"mesh", []string{"data-plane", "control-plane"}}, {"non-mesh", []string{"faces", "load", "iperf"}}, {"business", []string{"mesh", "non-mesh"}}, {"overhead", []string{"gke", "k8s"}}, {"total", []string{"business", "overhead"}}}

// Cores of a column at a rate, before noise.
func (s Sequence) Cores(column string, rate int) float64 {
	return s.values(rate, 1, 1)[column][0] / 1e9
}

// Write writes the sequence under root and returns its directory.
func (s Sequence) Write(t testing.TB, root string) string {
	t.Helper()
	s = s.defaults()
	dir := filepath.Join(root, s.Dir)
	must.OK(t, os.MkdirAll(dir, 0o755))
	at := Start.Add(time.Duration(s.Seed) * 24 * time.Hour)
	for _, rate := range s.Rates {
		for run := s.First; run < s.First+s.Runs; run++ {
			random := rand.New(rand.NewPCG(s.Seed, uint64(rate*100+run)))
			s.file(t, dir, fmt.Sprintf("%d-%d-metrics.csv", rate, run), s.CSV(rate, at, random))
			for pod := range s.Pods {
				name, log := s.log(rate, run, pod, random)
				s.file(t, dir, name, log)
			}
			at = at.Add(time.Duration(s.Seconds)*time.Second + 3*time.Minute)
		}
	}
	return dir
}

func (s Sequence) file(t testing.TB, dir, name string, b []byte) {
	t.Helper()
	if s.Change != nil {
		b = s.Change(name, b)
	}
	if b == nil {
		return
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
}

// CSV returns the metrics of one run: idle, a partly idle start, the steady
// state, and an end. Each reading occurs Refresh times.
func (s Sequence) CSV(rate int, at time.Time, random *rand.Rand) []byte {
	s = s.defaults()
	end := "\r\n"
	if s.LF {
		end = "\n"
	}
	var b strings.Builder
	b.WriteString("timestamp")
	for n := range s.Nodes {
		fmt.Fprintf(&b, ",gke-node-%d CPU,gke-node-%d allocatable CPU,gke-node-%d mem,gke-node-%d allocatable mem", n, n, n, n)
	}
	for _, e := range elements {
		fmt.Fprintf(&b, ",%s CPU,%s mem", e, e)
	}
	b.WriteString(end)
	level := 1 + 0.01*random.NormFloat64()
	var now map[string][2]float64
	samples := s.Seconds/10 + 6
	for i := range samples {
		if i%s.Refresh == 0 {
			load := 1.0
			switch {
			case i < s.Refresh, i >= samples-3:
				load = 0
			case i < 2*s.Refresh:
				load = 0.3
			}
			now = s.values(rate, load, level*(1+0.005*random.NormFloat64()))
		}
		b.WriteString(at.Add(time.Duration(i) * 10 * time.Second).Format("2006-01-02 15:04:05"))
		for range s.Nodes {
			fmt.Fprintf(&b, ",%.6f,%d,%.6f,%d", now["total"][0]/float64(s.Nodes), int64(7.91e9), now["total"][1]/float64(s.Nodes), int64(27)<<30)
		}
		for _, e := range elements {
			v, ok := now[e]
			if !ok {
				b.WriteString(",,")
				continue
			}
			fmt.Fprintf(&b, ",%.0f,%.0f", v[0], v[1])
		}
		b.WriteString(end)
	}
	return []byte(b.String())
}

// values of every column in nanocores and bytes: load is 0..1 of the rate.
func (s Sequence) values(rate int, load, noise float64) map[string][2]float64 {
	v := map[string][2]float64{}
	put := func(name string, c [3]float64) {
		cpu := math.Round((c[0] + c[1]*float64(rate)*load) * noise * 1e9)
		mem := math.Round(c[2] * (1 << 20))
		v[name] = [2]float64{cpu, mem}
		to := aggregate(name)
		v[to] = [2]float64{v[to][0] + cpu, v[to][1] + mem}
	}
	for _, set := range []map[string][3]float64{components[""], components[s.Mesh]} {
		for name, c := range set {
			generator := strings.HasPrefix(name, "load ")
			if generator && load == 0 {
				continue
			}
			if generator && s.Oha != "" && strings.HasSuffix(name, " app") {
				// oha's own container has no column: only the sum contains it.
				v["load"] = [2]float64{math.Round(c[1] * float64(rate) * load * noise * 1e9), math.Round(c[2] * (1 << 20))}
				continue
			}
			put(name, c)
		}
	}
	for name, c := range remainders {
		v[name] = [2]float64{math.Round((c[0] + c[1]*float64(rate)*load) * noise * 1e9), math.Round(c[2] * (1 << 20))}
	}
	for _, sum := range sums {
		var t [2]float64
		for _, p := range sum.parts {
			t[0] += v[p][0]
			t[1] += v[p][1]
		}
		v[sum.name] = t
	}
	return v
}

func aggregate(component string) string {
	switch {
	case strings.HasPrefix(component, "load app"):
		return "load"
	case strings.HasSuffix(component, " app"):
		return "faces"
	case strings.HasPrefix(component, "linkerd-"), component == "istiod mesh":
		return "control-plane"
	}
	return "data-plane"
}

func (s Sequence) defaults() Sequence {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&s.Runs, 5)
	set(&s.Pods, 3)
	set(&s.Seconds, 300)
	set(&s.Refresh, 3)
	if s.Rates == nil {
		s.Rates = []int{60, 120, 240}
	}
	s.Dir = cmp.Or(s.Dir, s.Mesh)
	return s
}
