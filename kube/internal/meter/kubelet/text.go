package kubelet

import (
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/tare-mesh/tare/internal/base/scrape"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
)

// resources is one node's /metrics/resource.
type resources struct {
	containers map[meter.Container]result.Reading
	node       result.NodeReading
}

func parseResources(body []byte) (resources, error) {
	r := resources{containers: map[meter.Container]result.Reading{}}
	err := samples(resourcePath, body, []string{"container_", "node_"}, func(s scrape.Sample) {
		key := containerOf(s)
		of := r.containers[key]
		switch s.Name {
		case "container_cpu_usage_seconds_total":
			of.At, of.CPU = s.Time, nanoseconds(s.Value)
			r.containers[key] = of
		case "container_memory_working_set_bytes":
			of.RSS = int64(s.Value)
			r.containers[key] = of
		case "node_cpu_usage_seconds_total":
			r.node.At, r.node.Busy = s.Time, nanoseconds(s.Value)
		case "node_memory_working_set_bytes":
			r.node.Memory = int64(s.Value)
		}
	})
	// Memory without CPU has no time.
	for key, of := range r.containers {
		if of.At.IsZero() {
			delete(r.containers, key)
		}
	}
	return r, err
}

// cadvisor is the part of a node's /metrics/cadvisor that other sources lack, by
// container. If cAdvisor does not name the container of a control group, it is by the
// container runtime's ID.
type cadvisor struct {
	byName map[meter.Container]group
	byID   map[string]group
}

type group struct {
	peak      int64 // bytes, page cache included
	throttled int64 // ns, 0 without a limit
}

func parseCAdvisor(body []byte) (cadvisor, error) {
	c := cadvisor{byName: map[meter.Container]group{}, byID: map[string]group{}}
	put := func(s scrape.Sample, set func(*group)) {
		if key := containerOf(s); key.Name != "" {
			g := c.byName[key]
			set(&g)
			c.byName[key] = g
		}
		id := runtimeID(s.Labels["id"])
		g := c.byID[id]
		set(&g)
		c.byID[id] = g
	}
	err := samples(cadvisorPath, body, []string{"container_memory_max_usage_bytes", "container_cpu_cfs_throttled_seconds_total"}, func(s scrape.Sample) {
		switch s.Name {
		case "container_memory_max_usage_bytes":
			put(s, func(g *group) { g.peak = int64(s.Value) })
		case "container_cpu_cfs_throttled_seconds_total":
			put(s, func(g *group) { g.throttled = nanoseconds(s.Value) })
		}
	})
	return c, err
}

// nanoseconds converts seconds of the text, with nine decimals.
func nanoseconds(seconds float64) int64 { return int64(math.Round(seconds * 1e9)) }

// runtimeID is the ID of a container in the path of its control group:
// ".../pod<uid>/<id>", or ".../cri-containerd-<id>.scope" if systemd makes the groups.
func runtimeID(group string) string {
	id := strings.TrimSuffix(path.Base(group), ".scope")
	if id == "/" || strings.Contains(id, "-conmon-") { // CRI-O's own process beside the container
		return ""
	}
	if i := strings.LastIndexByte(id, '-'); i >= 0 {
		id = id[i+1:]
	}
	return id
}

func containerOf(s scrape.Sample) meter.Container {
	return meter.Container{Namespace: s.Labels["namespace"], Pod: s.Labels["pod"], Name: s.Labels["container"]}
}

// samples reads the samples of a page that have a time, in lines that begin with one of prefixes.
func samples(page string, body []byte, prefixes []string, each func(scrape.Sample)) error {
	for s, err := range scrape.Samples(body, prefixes...) {
		if err == nil && (math.IsNaN(s.Value) || math.IsInf(s.Value, 0)) {
			err = fmt.Errorf("%s is %v", s.Name, s.Value)
		}
		if err != nil {
			return fmt.Errorf("read /%s: %w", page, err)
		}
		if !s.Time.IsZero() {
			each(s)
		}
	}
	return nil
}
