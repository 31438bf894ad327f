package kubelet

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

type containerKey struct{ namespace, pod, container string }

// resources is one node's /metrics/resource.
type resources struct {
	containers map[containerKey]result.Reading
	node       result.Reading
}

// parse reads the text format of Prometheus as a kubelet writes it: a sample a
// line, "name{label="value",…} value milliseconds". A sample without a time is
// left out: it could not be placed.
func parse(body []byte) (resources, error) {
	r := resources{containers: map[containerKey]result.Reading{}}
	for line := range bytes.Lines(body) {
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		if err := r.add(text); err != nil {
			return resources{}, fmt.Errorf("read /metrics/resource: line %.120q: %w", text, err)
		}
	}
	return r, nil
}

func (r *resources) add(line string) error {
	name, labels, rest, err := split(line)
	if err != nil {
		return err
	}
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return nil
	}
	value, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return err
	}
	ms, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return err
	}
	at := time.UnixMilli(ms)
	key := containerKey{labels["namespace"], labels["pod"], labels["container"]}
	switch name {
	case "container_cpu_usage_seconds_total":
		of := r.containers[key]
		of.At, of.CPU = at, int64(math.Round(value*1e9))
		r.containers[key] = of
	case "container_memory_working_set_bytes":
		of := r.containers[key]
		of.RSS = int64(value)
		r.containers[key] = of
	case "node_cpu_usage_seconds_total":
		r.node.At, r.node.CPU = at, int64(math.Round(value*1e9))
	}
	return nil
}

// split takes a line apart; labels hold no escapes but \\, \" and \n.
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
