package mesh

import (
	"fmt"
	"regexp"
	"time"
)

// Series is a family of metrics in Prometheus' text format.
type Series struct {
	Port   int    `yaml:"port" json:"port" range:"1,65535"`
	Path   string `yaml:"path" json:"path" form:"path"`
	Metric string `yaml:"metric" json:"metric" required:"add its name as the process shows it"`
}

// Updates is a page of a proxy with instants in the format of RFC 3339, as "last_updated": "2006-01-02T15:04:05.999Z".
type Updates struct {
	// Direction of the requests that the configuration is of: inbound at the entry's proxies, outbound at the load's.
	Direction string `yaml:"direction" json:"direction" oneOf:"inbound,outbound"`
	Port      int    `yaml:"port" json:"port" range:"1,65535"`
	Path      string `yaml:"path" json:"path" form:"path"`
	// Field is the name before each instant.
	Field string `yaml:"field" json:"field" required:"add its name on the page, such as last_updated"`
}

// Times are the instants on a page.
func (u Updates) Times(page []byte) (all []time.Time, err error) {
	for _, found := range regexp.MustCompile(`"`+regexp.QuoteMeta(u.Field)+`":\s*"([^"]*)"`).FindAllSubmatch(page, -1) {
		at, err := time.Parse(time.RFC3339, string(found[1]))
		if err != nil {
			return nil, fmt.Errorf("read the instants of %s: %w", u.Field, err)
		}
		all = append(all, at)
	}
	return all, nil
}

// ControlTime is a histogram of the control plane.
type ControlTime struct {
	Stage string `yaml:"stage" json:"stage" required:"add a name for tables, such as debounce"` // its name in reports
	// PodLabel selects pods in the mesh's namespace. A prefix ends in "*".
	PodLabel map[string]string `yaml:"podLabel" json:"podLabel"`
	Port     int               `yaml:"port" json:"port" range:"1,65535"`
	Path     string            `yaml:"path" json:"path" form:"path"`
	Metric   string            `yaml:"metric" json:"metric" required:"add its name as the control plane shows it"`
	Unit     string            `yaml:"unit,omitempty" json:"unit,omitempty" oneOf:"s,ms"` // of its times; absent: s
}

// Scale is its unit in seconds.
func (t ControlTime) Scale() float64 {
	if t.Unit == "ms" {
		return 0.001
	}
	return 1
}

func (t ControlTime) mistakes(report func(field, message, hint string)) {
	if len(t.PodLabel) == 0 {
		report("podLabel", "missing: needed to find the pods of the control plane", "add labels of the pods")
	}
}

// Selects reports whether a pod in the mesh's namespace has the histogram.
func (t ControlTime) Selects(labels map[string]string) bool { return has(labels, t.PodLabel) }

// CountedTime is a histogram of one stage in one process, since the process started.
type CountedTime struct {
	Stage    string
	Instance string // of the process: another one begins to count again
	Count    int64
	Seconds  float64           // sum of all times
	Within   map[float64]int64 // times up to a bound, in seconds
}
