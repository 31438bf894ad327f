package result

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
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

// Slice is one time slice of the measure phase of a trial in a round.
type Slice struct {
	load.SliceCount // of own slices, otherwise only its number
	// Own: the trial had the load.
	Own bool
	// Begin and End are the readings of the counters, from the start of the schedule.
	Begin, End time.Duration
	CPU        map[metric.Plane]int64 // ns, between them
}

// sliceColumns are the columns of slices.csv before the columns of the planes.
var sliceColumns = []string{"slice", "own", "begin_s", "end_s", "intended", "answered", "ok", "overrun", "response_ns"}

// lastEndColumn follows the columns of the planes: files of earlier versions lack it.
const lastEndColumn = "last_end_s"

// cpuColumn begins the name of a plane's column.
const cpuColumn = "cpu_ns_"

// Slices writes the slices of the trial.
func (td *TrialDir) Slices(all []Slice) (err error) {
	path := td.Path(SlicesFile)
	f, err := td.Create(SlicesFile)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	header := slices.Clone(sliceColumns)
	header = append(header, lists.Map(metric.Planes(), func(p metric.Plane) string { return cpuColumn + string(p) })...)
	header = append(header, lastEndColumn)
	_ = w.Write(header) // [csv.Writer.Error] has the error
	for _, s := range all {
		row := []string{strconv.Itoa(s.Slice), strconv.FormatBool(s.Own), sliceTime(s.Begin), sliceTime(s.End)}
		for _, n := range []int64{s.Intended, s.Answered, s.OK, s.Overrun, s.ResponseNS} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		for _, p := range metric.Planes() {
			row = append(row, strconv.FormatInt(s.CPU[p], 10))
		}
		row = append(row, sliceTime(time.Duration(s.LastEnd)))
		_ = w.Write(row)
	}
	w.Flush()
	return storage("write", path, errors.Join(w.Error(), f.Sync(), f.Close()))
}

// sliceTime is in seconds, to the microsecond.
func sliceTime(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 6, 64) }

// maxSliceBytes bounds a slices.csv: a day of slices of a tenth of a second has 100 MB.
const maxSliceBytes = 256 << 20

// ReadSlices reads a slices.csv. Columns of unknown planes are ignored.
func ReadSlices(path string) ([]Slice, error) {
	f, err := regular.Open(path, maxSliceBytes)
	if err != nil {
		return nil, storage("read", path, err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.ReuseRecord = true
	header, err := r.Read()
	if err == nil && (len(header) < len(sliceColumns) || !slices.Equal(header[:len(sliceColumns)], sliceColumns)) {
		err = fmt.Errorf("its columns are not %v", sliceColumns)
	}
	if err != nil {
		return nil, damagedSlices(path, 1, err)
	}
	at := placesIn(header)
	var all []Slice
	for line := 2; ; line++ {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		var s Slice
		if err == nil {
			s, err = parseSlice(at, row)
		}
		if err != nil {
			return nil, damagedSlices(path, line, err)
		}
		all = append(all, s)
	}
}

func damagedSlices(path string, line int, err error) error {
	return &Error{Op: "read", Path: path, Line: line, Hinted: hint.Hinted{Err: err, Text: "the file is damaged: restore it, or remove it; reports then lack the variance between slices"}}
}

// slicePlaces are the columns of a slices.csv that not every file has, below 0 without.
type slicePlaces struct {
	planes  []int // in the order of [metric.Planes]
	lastEnd int
}

func placesIn(header []string) slicePlaces {
	return slicePlaces{lists.Map(metric.Planes(), func(p metric.Plane) int { return slices.Index(header, cpuColumn+string(p)) }), slices.Index(header, lastEndColumn)}
}

func parseSlice(at slicePlaces, row []string) (s Slice, err error) {
	var failed []error
	whole := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		failed = append(failed, err)
		return n
	}
	seconds := func(text string) time.Duration {
		x, err := strconv.ParseFloat(text, 64)
		if err == nil && !(x >= -1e9 && x <= 1e9) {
			err = fmt.Errorf("%.40q is not a time in seconds", text)
		}
		failed = append(failed, err)
		return time.Duration(x * 1e9)
	}
	s.Slice = int(whole(row[0]))
	s.Own, err = strconv.ParseBool(row[1])
	failed = append(failed, err)
	s.Begin, s.End = seconds(row[2]), seconds(row[3])
	for i, n := range []*int64{&s.Intended, &s.Answered, &s.OK, &s.Overrun, &s.ResponseNS} {
		*n = whole(row[4+i])
	}
	s.CPU = map[metric.Plane]int64{}
	for i, p := range metric.Planes() {
		if at.planes[i] >= 0 {
			s.CPU[p] = whole(row[at.planes[i]])
		}
	}
	if at.lastEnd >= 0 {
		s.LastEnd = int64(seconds(row[at.lastEnd]))
	}
	return s, errors.Join(failed...)
}
