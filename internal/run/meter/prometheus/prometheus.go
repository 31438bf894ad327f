// Package prometheus reads the usage of containers from a Prometheus that scrapes
// the kubelets of their cluster, through its HTTP API.
//
// It reads samples, not rates. Each sample has a time: the kubelet's if Prometheus
// honours it, which is the default. Counters and readings are then those of the
// kubelet, at the scrape interval.
package prometheus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

const (
	// Refresh is a usual scrape interval plus the refresh interval of a kubelet.
	Refresh = 30 * time.Second
	// back is the maximum age of the last sample.
	back = "2m"
	// backFar is the period in which sample intervals are measured.
	backFar = "10m"
	// askTimeout bounds one query.
	askTimeout = 10 * time.Second
	// mostAnswer is the maximum size of an answer, bytes. That of 1000 containers is 1 MiB.
	mostAnswer = 64 << 20
)

// The counters, by their names in a kubelet's /metrics/cadvisor and /metrics/resource.
const (
	containerCPU    = "container_cpu_usage_seconds_total"
	containerMemory = "container_memory_working_set_bytes"
	containerHeld   = "container_cpu_cfs_throttled_seconds_total"
	nodeCPU         = "node_cpu_usage_seconds_total"
	nodeMemory      = "node_memory_working_set_bytes"
)

// Meter reads containers by the namespace, pod and container of their tasks.
type Meter struct {
	base   *url.URL
	client *http.Client
	nodes  []cluster.Node
}

// New makes the meter of the Prometheus at an address ("http://localhost:9090").
// nodes are the cluster's nodes, if they are known.
func New(address string, nodes []cluster.Node) (*Meter, error) {
	base, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("address of Prometheus: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("address of Prometheus: %q is no http or https URL", address)
	}
	return &Meter{base: base, client: &http.Client{Timeout: askTimeout}, nodes: nodes}, nil
}

type key struct{ namespace, pod, container string } // of a node: nothing

// Follower implements [meter.Meter].
func (*Meter) Follower() meter.Follower { return nil }

// Read reads the last samples of every container in the tasks' namespaces, and of the
// nodes. [meter.Edge] adds throttling.
func (m *Meter) Read(ctx context.Context, tasks []platform.Task, depth meter.Depth) (meter.Look, error) {
	in := selector(tasks)
	questions := []string{containerCPU + in, containerMemory + in, nodeCPU, nodeMemory}
	if depth >= meter.Edge {
		questions = append(questions, containerHeld+in)
	}
	answers := make([][]series, len(questions)+1)
	failed := make([]error, len(questions))
	var asking errgroup.Group
	for i, q := range questions {
		asking.Go(func() error {
			answers[i], failed[i] = m.query(ctx, q+"["+back+"]")
			return nil
		})
	}
	_ = asking.Wait()
	if ctx.Err() != nil {
		return meter.Look{}, context.Cause(ctx)
	}
	look := meter.Look{Tasks: map[string]result.Reading{}, Missing: map[string]error{}, NodeErr: errors.Join(failed[2], failed[3])}
	if failed[0] != nil {
		look.Gap = failed[0]
		return look, nil
	}
	cpu, memory, held := latest(answers[0]), latest(answers[1]), latest(answers[4])
	for _, t := range tasks {
		k := key{t.Namespace, t.Pod, t.Container}
		s, ok := cpu[k]
		if !ok || t.Namespace == "" {
			look.Missing[t.ID] = errNotThere
			continue
		}
		r := result.Reading{At: s.at, CPU: nanoseconds(s.value), RSS: int64(memory[k].value)}
		if h, ok := held[k]; ok {
			ns := nanoseconds(h.value)
			r.Throttled = &ns
		}
		look.Tasks[t.ID] = r
	}
	m.addNodes(&look, answers[2], answers[3])
	return look, nil
}

var errNotThere = fmt.Errorf("no sample of the container in Prometheus from the last %s: %w", back, fs.ErrNotExist)

func nanoseconds(seconds float64) int64 { return int64(math.Round(seconds * 1e9)) }

// selector chooses the containers of the tasks' namespaces.
func selector(tasks []platform.Task) string {
	var names []string
	for _, t := range tasks {
		if n := regexp.QuoteMeta(t.Namespace); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return fmt.Sprintf(`{container!="",pod!="",namespace=~%q}`, strings.Join(names, "|"))
}

// addNodes adds up the nodes that Prometheus scrapes, by the label "node" or else
// "instance". Without all of the cluster's nodes there is no total.
func (m *Meter) addNodes(look *meter.Look, cpu, memory []series) {
	all := map[string]result.NodeReading{}
	for _, s := range cpu {
		name := cmp.Or(s.labels["node"], s.labels["instance"])
		if r := all[name]; s.last.at.After(r.At) {
			all[name] = result.NodeReading{At: s.last.at, Busy: nanoseconds(s.last.value)}
		}
	}
	for _, s := range memory {
		name := cmp.Or(s.labels["node"], s.labels["instance"])
		if r, ok := all[name]; ok {
			r.Memory = int64(s.last.value)
			all[name] = r
		}
	}
	if len(all) == 0 || len(m.nodes) > 0 && len(all) != len(m.nodes) {
		look.NodeErr = errors.Join(look.NodeErr, fmt.Errorf("nodes: CPU of %d of %d in Prometheus (%s)", len(all), len(m.nodes), nodeCPU))
		return
	}
	var sum result.NodeReading
	var first time.Time
	var offset time.Duration
	for _, r := range all {
		if first.IsZero() {
			first = r.At
		}
		sum.Busy += r.Busy
		sum.Memory += r.Memory
		offset += r.At.Sub(first) / time.Duration(len(all))
	}
	sum.At = first.Add(offset)
	look.Node = &sum
	for _, n := range m.nodes {
		look.NodeCPUs += n.CPUs
		if r, ok := all[n.Name]; ok {
			look.Nodes = append(look.Nodes, meter.Machine{Name: n.Name, CPUs: n.CPUs, AllocatableCPU: n.Cores, AllocatableMemory: n.Memory, Reading: r})
		}
	}
}

// Probe returns the sample interval: the longest of the last minutes, rounded up to
// the second.
func (m *Meter) Probe(ctx context.Context) (time.Duration, error) {
	all, err := m.query(ctx, containerCPU+`{container!="",pod!=""}[`+backFar+"]")
	if err != nil {
		return 0, fmt.Errorf("measure the scrape interval of Prometheus: %w", err)
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("measure the scrape interval of Prometheus: it has no %s of any container: does it scrape the kubelets (/metrics/cadvisor or /metrics/resource)?", containerCPU)
	}
	longest := time.Duration(0)
	for _, s := range all {
		longest = max(longest, s.longest)
	}
	if longest == 0 {
		return Refresh, nil
	}
	return (longest + time.Second - 1).Truncate(time.Second), nil
}

// latest returns the newest sample of each container. A container has several series if it
// was restarted, or is scraped twice (from /metrics/cadvisor and /metrics/resource). latest
// uses the newest.
func latest(all []series) map[key]sample {
	of := map[key]sample{}
	for _, s := range all {
		k := key{s.labels["namespace"], s.labels["pod"], s.labels["container"]}
		if was, ok := of[k]; !ok || s.last.at.After(was.at) {
			of[k] = s.last
		}
	}
	return of
}

// series is the used part of a Prometheus time series.
type series struct {
	labels  map[string]string
	last    sample
	longest time.Duration // between two samples
}

type sample struct {
	at    time.Time
	value float64
}

// query returns the samples of a range.
func (m *Meter) query(ctx context.Context, expression string) ([]series, error) {
	fail := func(err error) ([]series, error) {
		return nil, fmt.Errorf("ask Prometheus for %s: %w", expression, err)
	}
	u := m.base.JoinPath("api/v1/query")
	u.RawQuery = url.Values{"query": {expression}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fail(err)
	}
	response, err := m.client.Do(request)
	if err != nil {
		return fail(withoutURL(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer+1))
	switch {
	case err != nil:
		return fail(err)
	case len(body) > mostAnswer:
		return fail(fmt.Errorf("the answer is larger than %d bytes", mostAnswer))
	}
	all, err := parse(body)
	if err != nil {
		return fail(errors.Join(statusError(response), err))
	}
	return all, nil
}

// withoutURL removes the address from an error: it may contain a password.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

func statusError(r *http.Response) error {
	if r.StatusCode == http.StatusOK {
		return nil
	}
	return errors.New(r.Status)
}

// answer is the answer of /api/v1/query.
type answer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		ResultType string `json:"resultType"`
		Result     []struct {
			Metric map[string]string    `json:"metric"`
			Values [][2]json.RawMessage `json:"values"` // seconds as a number, and the value as text
		} `json:"result"`
	} `json:"data"`
}

func parse(body []byte) ([]series, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("not a response of Prometheus: %w", err)
	}
	if a.Status != "success" || a.Data.ResultType != "matrix" {
		return nil, fmt.Errorf("%s, %s", cmp.Or(a.Error, "status "+strconv.Quote(a.Status)), cmp.Or(a.Data.ResultType, "no data"))
	}
	var all []series
	for _, r := range a.Data.Result {
		s := series{labels: r.Metric}
		for _, v := range r.Values {
			one, err := parseSample(v)
			if err != nil {
				return nil, err
			}
			if !s.last.at.IsZero() {
				s.longest = max(s.longest, one.at.Sub(s.last.at))
			}
			s.last = one
		}
		if len(r.Values) > 0 {
			all = append(all, s)
		}
	}
	return all, nil
}

func parseSample(v [2]json.RawMessage) (sample, error) {
	seconds, err := strconv.ParseFloat(string(v[0]), 64)
	if err != nil {
		return sample{}, fmt.Errorf("time of a sample: %w", err)
	}
	var text string
	if err := json.Unmarshal(v[1], &text); err != nil {
		return sample{}, fmt.Errorf("value of a sample: %w", err)
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return sample{}, fmt.Errorf("value of a sample: %w", err)
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return sample{}, fmt.Errorf("value of a sample: %s", text)
	}
	return sample{time.UnixMilli(int64(math.Round(seconds * 1000))), value}, nil
}
