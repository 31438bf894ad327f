package kubelet

import (
	"bytes"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

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
	err := samples(resourcePath, body, []string{"container_", "node_"}, func(s sample) {
		key := s.key()
		of := r.containers[key]
		switch s.name {
		case "container_cpu_usage_seconds_total":
			of.At, of.CPU = s.at, nanoseconds(s.value)
			r.containers[key] = of
		case "container_memory_working_set_bytes":
			of.RSS = int64(s.value)
			r.containers[key] = of
		case "node_cpu_usage_seconds_total":
			r.node.At, r.node.Busy = s.at, nanoseconds(s.value)
		case "node_memory_working_set_bytes":
			r.node.Memory = int64(s.value)
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

// group is one control group.
type group struct {
	peak      int64 // bytes, page cache included
	throttled int64 // ns, 0 without a limit
}

func parseCAdvisor(body []byte) (cadvisor, error) {
	c := cadvisor{byName: map[meter.Container]group{}, byID: map[string]group{}}
	put := func(s sample, set func(*group)) {
		if key := s.key(); key.Name != "" {
			g := c.byName[key]
			set(&g)
			c.byName[key] = g
		}
		id := runtimeID(s.labels["id"])
		g := c.byID[id]
		set(&g)
		c.byID[id] = g
	}
	err := samples(cadvisorPath, body, []string{"container_memory_max_usage_bytes", "container_cpu_cfs_throttled_seconds_total"}, func(s sample) {
		switch s.name {
		case "container_memory_max_usage_bytes":
			put(s, func(g *group) { g.peak = int64(s.value) })
		case "container_cpu_cfs_throttled_seconds_total":
			put(s, func(g *group) { g.throttled = nanoseconds(s.value) })
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

// sample is one line of Prometheus' text format.
type sample struct {
	name   string
	labels map[string]string
	value  float64
	at     time.Time
}

func (s sample) key() meter.Container {
	return meter.Container{Namespace: s.labels["namespace"], Pod: s.labels["pod"], Name: s.labels["container"]}
}

// samples reads the text format of Prometheus as a kubelet writes it: a sample a
// line, "name{label="value",…} value milliseconds". Lines that begin with none of
// prefixes, and samples without a time, are skipped.
func samples(what string, body []byte, prefixes []string, each func(sample)) error {
	for line := range bytes.Lines(body) {
		if !anyPrefix(line, prefixes) {
			continue
		}
		text := strings.TrimSpace(string(line))
		s, timed, err := parseSample(text)
		if err != nil {
			return fmt.Errorf("read /%s: line %.120q: %w", what, text, err)
		}
		if timed {
			each(s)
		}
	}
	return nil
}

func anyPrefix(line []byte, prefixes []string) bool {
	for _, p := range prefixes {
		if bytes.HasPrefix(line, []byte(p)) {
			return true
		}
	}
	return false
}

func parseSample(line string) (s sample, timed bool, err error) {
	var rest string
	if s.name, s.labels, rest, err = split(line); err != nil {
		return s, false, err
	}
	fields := strings.Fields(rest)
	if len(fields) < 1 {
		return s, false, fmt.Errorf("no value")
	}
	if s.value, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return s, false, err
	}
	if math.IsNaN(s.value) || math.IsInf(s.value, 0) {
		return s, false, fmt.Errorf("%v is no reading", s.value)
	}
	if len(fields) < 2 {
		return s, false, nil
	}
	ms, err := strconv.ParseInt(fields[1], 10, 64)
	s.at = time.UnixMilli(ms)
	return s, true, err
}

// split splits a line. Labels have no other escapes than \\, \" and \n.
func split(line string) (name string, labels map[string]string, rest string, err error) {
	i := strings.IndexAny(line, "{ ")
	if i < 0 {
		return "", nil, "", fmt.Errorf("no value")
	}
	name, rest = line[:i], line[i:]
	if rest[0] != '{' {
		return name, nil, rest, nil
	}
	labels, rest = map[string]string{}, rest[1:]
	for {
		rest = strings.TrimLeft(rest, ", ")
		if after, closed := strings.CutPrefix(rest, "}"); closed {
			return name, labels, after, nil
		}
		label, quoted, ok := strings.Cut(rest, "=")
		if !ok {
			return "", nil, "", fmt.Errorf("labels without an end")
		}
		q, err := strconv.QuotedPrefix(quoted)
		if err != nil {
			return "", nil, "", err
		}
		if labels[label], err = strconv.Unquote(q); err != nil {
			return "", nil, "", err
		}
		rest = quoted[len(q):]
	}
}
