package prometheus

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

func one(labels string, samples ...string) string {
	return fmt.Sprintf(`{"metric":{%s},"values":[%s]}`, labels, strings.Join(samples, ","))
}

func at(seconds, value string) string { return fmt.Sprintf("[%s,%q]", seconds, value) }

// answers are the answers of a Prometheus, by the beginning of the query.
type answers map[string][]string

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.FormValue("query")
	for name, series := range a {
		if strings.HasPrefix(q, name+"{") || strings.HasPrefix(q, name+"[") {
			fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, strings.Join(series, ","))
			return
		}
	}
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprint(w, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\""}`)
}

const app = `"namespace":"shop","pod":"front-0","container":"app"`

func whole() answers {
	return answers{
		// Scraped from two places, of which the second is ahead.
		containerCPU: {one(app+`,"metrics_path":"/metrics/cadvisor"`, at("1000", "1"), at("1014.1", "2")),
			one(app+`,"metrics_path":"/metrics/resource"`, at("1001.5", "1.25"), at("1011.5", "1.75"), at("1016.625", "2.5"))},
		containerMemory: {one(app, at("1016.625", "8.462336e+06"))},
		containerHeld:   {one(app, at("1014.1", "0.125"))},
		nodeCPU:         {one(`"node":"n1"`, at("1010", "16757.5"))},
		nodeMemory:      {one(`"node":"n1"`, at("1010", "5e9"))},
	}
}

var (
	tasks = []platform.Task{
		{Task: mesh.Task{ID: "front-0/app", Namespace: "shop", Pod: "front-0", Container: "app"}},
		{Task: mesh.Task{ID: "gone", Namespace: "shop", Pod: "front-1", Container: "app"}},
	}
	n1 = []cluster.Node{{Name: "n1", CPUs: 2, Cores: 1.9, Memory: 1 << 30}}
)

func serve(t *testing.T, h http.Handler, nodes []cluster.Node) *Meter {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	m, err := New(s.URL, nodes)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRead(t *testing.T) {
	m := serve(t, whole(), n1)
	l, err := m.Read(t.Context(), tasks, meter.Edge)
	if err != nil || l.Gap != nil {
		t.Fatalf("%+v, %v", l, err)
	}
	r := l.Tasks["front-0/app"]
	if r.CPU != 2500000000 || r.At.UnixMilli() != 1016625 || r.RSS != 8462336 || r.Throttled == nil || *r.Throttled != 125_000_000 {
		t.Errorf("%+v", r)
	}
	if l.Missing["gone"] == nil || l.Node == nil || l.Node.Busy != 16757500000000 || l.Nodes[0].AllocatableCPU != 1.9 || l.NodeCPUs != 2 {
		t.Errorf("%+v", l)
	}
	if l, _ = m.Read(t.Context(), tasks, meter.Counters); l.Tasks["front-0/app"].Throttled != nil {
		t.Error("throttling is asked for between the edges")
	}
	if d, err := m.Probe(t.Context()); err != nil || d != 15*time.Second {
		t.Errorf("%v, %v", d, err)
	}
}

// A total of some of the nodes is no total.
func TestNodesThatAreNotScraped(t *testing.T) {
	m := serve(t, whole(), append(n1, cluster.Node{Name: "n2", CPUs: 2}))
	if l, err := m.Read(t.Context(), tasks, meter.Counters); err != nil || l.Node != nil || l.NodeErr == nil || len(l.Tasks) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestAway(t *testing.T) {
	m := serve(t, answers{}, n1)
	if l, err := m.Read(t.Context(), tasks, meter.Counters); err != nil || l.Gap == nil || !strings.Contains(l.Gap.Error(), "400 Bad Request") {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := serve(t, answers{containerCPU: nil}, n1).Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "scrape the kubelets") {
		t.Error(err)
	}
	away, err := New("http://user:secret@127.0.0.1:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := away.Read(t.Context(), tasks, meter.Counters); err != nil || l.Gap == nil || strings.Contains(l.Gap.Error(), "secret") {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, bad := range []string{"", "localhost:9090", "ftp://localhost", "http://", "http://[::1"} {
		if _, err := New(bad, nil); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestParseRefusesGarbage(t *testing.T) {
	for _, bad := range []string{"", "<html>", `{"status":"success","data":{"resultType":"vector"}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[["x","1"]]}]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"NaN"]]}]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,2]]}]}}`} {
		if all, err := parse([]byte(bad)); err == nil {
			t.Errorf("%q is taken: %v", bad, all)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[` + one(app, at("1", "2")) + `]}}`))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parse(b) })
}
