package result

import (
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
)

// Sampled contains resource figures as published: averaged rates, read at
// intervals, instead of counters read at the edges. Imports use it. Figures
// missing from the source are null or absent: unknown, never zero.
type Sampled struct {
	Source string        `json:"source"`          // publisher, such as `Kubernetes Metrics API`
	Tasks  []mesh.Task   `json:"tasks"`           // parts of each plane; role `remainder` holds the unnamed rest
	Nodes  []SampledNode `json:"nodes,omitempty"` // machines: `name`, `allocatableCores`, `allocatableMemory` (bytes)
	// Rows are all rows of the file in the order of their times. The measure phase
	// of the record selects the rows that count.
	Rows []SampledRow `json:"rows"`
	// A plane without a task is always unknown.
	Unknown []metric.Plane `json:"unknown,omitempty"` // planes that the source contains in part
}

// RoleRemainder marks the task for the part of a plane beyond its named tasks.
const RoleRemainder = "remainder"

// RoleNamespace marks a task that is a whole namespace, its component.
const RoleNamespace = "namespace"

// SampledNode is one machine and its allocatable resources.
type SampledNode struct {
	Name              string   `json:"name"`                        // of the node
	AllocatableCores  *float64 `json:"allocatableCores,omitempty"`  // cores
	AllocatableMemory *float64 `json:"allocatableMemory,omitempty"` // bytes
}

// SampledRow is one sample. The slices are as long as Tasks, and as Nodes. An
// absent slice is unknown throughout.
type SampledRow struct {
	At         time.Time  `json:"at"`                   // when the row was read
	Repeat     bool       `json:"repeat,omitempty"`     // repeats the row before and holds no figures
	Cores      []*float64 `json:"cores,omitempty"`      // CPU, cores, in the order of `tasks`
	Memory     []*float64 `json:"memory,omitempty"`     // working set, bytes
	NodeCores  []*float64 `json:"nodeCores,omitempty"`  // CPU by machine, in the order of `nodes`: the sum of its pods
	NodeMemory []*float64 `json:"nodeMemory,omitempty"` // memory likewise, bytes
}

// Expanded returns the rows with the figures of repeats filled in.
func (s *Sampled) Expanded() []SampledRow {
	rows := make([]SampledRow, len(s.Rows))
	for i, r := range s.Rows {
		if rows[i] = r; r.Repeat && i > 0 {
			rows[i] = rows[i-1]
			rows[i].At, rows[i].Repeat = r.At, true
		}
	}
	return rows
}

// Shorten marks the rows equal to the previous row, and drops their figures.
func (s *Sampled) Shorten() {
	for i := len(s.Rows) - 1; i > 0; i-- {
		if a, b := s.Rows[i-1], &s.Rows[i]; !b.Repeat && sameFigures(a.Cores, b.Cores) && sameFigures(a.Memory, b.Memory) &&
			sameFigures(a.NodeCores, b.NodeCores) && sameFigures(a.NodeMemory, b.NodeMemory) {
			*b = SampledRow{At: b.At, Repeat: true}
		}
	}
}

func sameFigures(a, b []*float64) bool {
	return slices.EqualFunc(a, b, func(x, y *float64) bool {
		return x == y || x != nil && y != nil && *x == *y
	})
}

// Latency is a latency distribution as published by one source. Published counts
// are in latency.hdr as well.
type Latency struct {
	Source string `json:"source"` // the file, e.g. of one load generator pod, or the generator
	// Of is "response" (from the intended start), "service" (from the actual
	// send) or "first byte". Absent means unknown.
	Of string `json:"of,omitempty"`
	// Meaning describes in one line where this source's clock starts and stops.
	Meaning   string     `json:"meaning,omitempty"`
	Count     int64      `json:"count,omitempty"` // requests, 0 if unknown
	MinMS     *float64   `json:"minMS,omitempty"`
	MeanMS    *float64   `json:"meanMS,omitempty"`
	MaxMS     *float64   `json:"maxMS,omitempty"`
	Quantiles []Quantile `json:"quantiles,omitempty"` // in ascending order
	// Buckets is the published histogram, in ascending order.
	Buckets []Bucket `json:"buckets,omitempty"`
}

// Bucket counts the requests above LowMS and up to HighMS.
type Bucket struct {
	LowMS  float64 `json:"lowMS"`
	HighMS float64 `json:"highMS"`
	Count  int64   `json:"count"`
}

// Quantile is one published point of a distribution, and Q is 0..1.
type Quantile struct {
	Q  float64 `json:"q"`
	MS float64 `json:"ms"`
}
