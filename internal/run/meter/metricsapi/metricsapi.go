// Package metricsapi reads the usage of containers from the Metrics API
// (metrics.k8s.io), if kubelets are not accessible.
//
// The API has no counters. For each pod it has one row, the mean usage of its
// containers over the window that ends at the row's time, and repeats it until the
// next row. The meter sums the rows. Windows are adjacent, so the sum is a counter,
// known at the ends of the windows. A repeated row is not a new reading.
package metricsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

const (
	api       = "/apis/metrics.k8s.io/v1beta1"
	nodesPath = api + "/nodes"
	// Refresh is the time between two rows at metrics-server's default resolution, plus a second.
	Refresh = 16 * time.Second
	// slack is the allowed difference of a window from the time between two adjacent
	// rows, whose times are truncated to the second.
	slack = 1500 * time.Millisecond
	// rounding is the mean loss by truncation.
	rounding = 500 * time.Millisecond
)

// Source is the cluster. [*cluster.Reader] is one.
type Source interface {
	// Raw returns the content of an absolute path of the API server.
	Raw(ctx context.Context, path string) ([]byte, error)
}

// Meter reads containers by the namespace, pod and container of their tasks.
type Meter struct {
	source Source
	nodes  []cluster.Node

	mu       sync.Mutex
	counters map[meter.Container]*counter // of a node: its name as pod
}

// Of makes the meter. nodes are the nodes with totals, none if they cannot be listed.
func Of(source Source, nodes []cluster.Node) *Meter {
	return &Meter{source: source, nodes: nodes, counters: map[meter.Container]*counter{}}
}

// Open makes the meter of a cluster.
func Open(ctx context.Context, c *cluster.Cluster) (*Meter, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		nodes = nil // RBAC permissions of one namespace exclude nodes, but containers are readable
	}
	return Of(c.Reader(), nodes), nil
}

// counter is the sum of the rows of one container.
type counter struct {
	row time.Time // of the last row
	at  time.Time // the end of its window
	cpu float64   // ns
	rss int64
}

// row is the mean usage of a container or node over a window, with the window's end.
type row struct {
	at     time.Time
	window time.Duration
	cores  float64
	rss    int64
}

// Follower implements [meter.Meter].
func (*Meter) Follower() meter.Follower { return nil }

// Read reads the rows of every namespace with a task, and of the nodes. Depth has no
// effect: the API has CPU and working set only.
func (m *Meter) Read(ctx context.Context, tasks []platform.Task, _ meter.Depth) (meter.Look, error) {
	look := meter.NewLook()
	namespaces := meter.Namespaces(tasks)
	rows := make([]map[meter.Container]row, len(namespaces)+1)
	failed := make([]error, len(namespaces)+1)
	var asking errgroup.Group
	for i, path := range append(paths(namespaces), nodesPath) {
		asking.Go(routine.Guarded(func() error {
			rows[i], failed[i] = m.ask(ctx, path)
			return nil
		}))
	}
	_ = asking.Wait()
	if ctx.Err() != nil {
		return meter.Look{}, context.Cause(ctx)
	}
	last := len(namespaces)
	pods := errors.Join(failed[:last]...)
	if pods != nil && answered(failed[:last]) == 0 {
		look.Gap, look.NodeErr = pods, failed[last]
		return look, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range rows {
		for k, r := range of {
			if m.counters[k] == nil {
				m.counters[k] = &counter{}
			}
			m.counters[k].add(r)
		}
	}
	for _, t := range tasks {
		c := m.counters[meter.ContainerOf(t)]
		if c == nil || t.Namespace == "" {
			look.Missing[t.ID] = errors.Join(errNotThere, pods)
			continue
		}
		look.Tasks[t.ID] = c.reading()
	}
	m.addNodes(&look, failed[last])
	return look, nil
}

// add adds a row, once. Between nonadjacent rows it uses the rate of the later
// one.
func (c *counter) add(r row) {
	at := r.at.Add(rounding)
	switch since := r.at.Sub(c.row); {
	case c.row.IsZero():
		c.at = at
	case since <= 0:
		return
	case (since - r.window).Abs() <= slack:
		c.at = c.at.Add(r.window)
		c.cpu += r.cores * float64(r.window)
	default:
		c.cpu += r.cores * float64(at.Sub(c.at))
		c.at = at
	}
	c.row, c.rss = r.at, r.rss
}

func (c *counter) reading() result.Reading {
	return result.Reading{At: c.at, CPU: int64(c.cpu), RSS: c.rss}
}

var errNotThere = fmt.Errorf("the Metrics API has no row for the container yet, or no longer: %w", fs.ErrNotExist)

func answered(failed []error) (n int) {
	for _, err := range failed {
		if err == nil {
			n++
		}
	}
	return n
}

func paths(namespaces []string) []string {
	all := make([]string, len(namespaces))
	for i, n := range namespaces {
		all[i] = api + "/namespaces/" + n + "/pods"
	}
	return all
}

func (m *Meter) ask(ctx context.Context, path string) (map[meter.Container]row, error) {
	body, err := m.source.Raw(ctx, path)
	if err != nil {
		return nil, err
	}
	return parse(body)
}

// addNodes adds the nodes and their sum, while m.mu is held.
func (m *Meter) addNodes(look *meter.Look, why error) {
	look.NodeErr = why
	for _, n := range m.nodes {
		look.NodeCPUs += n.CPUs
		c := m.counters[meter.Container{Pod: n.Name}]
		if c == nil {
			look.NodeErr = errors.Join(look.NodeErr, fmt.Errorf("the Metrics API has no row for node %s", n.Name))
			continue
		}
		r := result.NodeReading{At: c.at, Busy: int64(c.cpu), Memory: c.rss}
		look.Nodes = append(look.Nodes, meter.Machine{Name: n.Name, CPUs: n.CPUs, AllocatableCPU: n.Cores, AllocatableMemory: n.Memory, Reading: r})
	}
	if len(m.nodes) == 0 {
		look.NodeErr = errors.Join(look.NodeErr, errors.New("the nodes may not be listed"))
	}
	look.AddTotal(len(m.nodes))
}

// Probe returns the interval of new rows: their longest window plus a second.
func (m *Meter) Probe(ctx context.Context) (time.Duration, error) {
	rows, err := m.ask(ctx, api+"/pods")
	if err != nil {
		if rows, err = m.ask(ctx, nodesPath); err != nil {
			return 0, fmt.Errorf("measure the refresh interval of the Metrics API: %w", err)
		}
	}
	longest := time.Duration(0)
	for _, r := range rows {
		longest = max(longest, r.window)
	}
	if longest == 0 {
		return Refresh, nil
	}
	return longest.Round(time.Second) + time.Second, nil
}

// list is a PodMetricsList or a NodeMetricsList.
type list struct {
	Items []struct {
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Timestamp  time.Time `json:"timestamp"`
		Window     string    `json:"window"`
		Usage      *usage    `json:"usage"` // of a node
		Containers []struct {
			Name  string `json:"name"`
			Usage usage  `json:"usage"`
		} `json:"containers"`
	} `json:"items"`
}

type usage struct {
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
}

func parse(body []byte) (map[meter.Container]row, error) {
	var l list
	if err := json.Unmarshal(body, &l); err != nil {
		return nil, fmt.Errorf("read the Metrics API's answer: %w", err)
	}
	rows := map[meter.Container]row{}
	for _, item := range l.Items {
		window, err := time.ParseDuration(item.Window)
		if err != nil || window <= 0 || item.Timestamp.IsZero() {
			return nil, fmt.Errorf("read the Metrics API's answer: %s: a row over %q to %v", item.Metadata.Name, item.Window, item.Timestamp)
		}
		add := func(k meter.Container, u usage) {
			rows[k] = row{item.Timestamp, window, u.CPU.AsApproximateFloat64(), u.Memory.Value()}
		}
		if item.Usage != nil {
			add(meter.Container{Pod: item.Metadata.Name}, *item.Usage)
		}
		for _, c := range item.Containers {
			add(meter.Container{Namespace: item.Metadata.Namespace, Pod: item.Metadata.Name, Name: c.Name}, c.Usage)
		}
	}
	return rows, nil
}
