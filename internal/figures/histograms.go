package figures

import (
	"cmp"
	"path/filepath"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// ResponseTimes returns the response times of a trial's measure window in nanoseconds, nil if the load generator keeps none. A trial
// without a latency log is an error that is fs.ErrNotExist.
func ResponseTimes(d *result.Dir, r *result.Record) (*hdrhistogram.Histogram, error) {
	if r.Load == nil {
		return nil, nil
	}
	from := r.Load.WarmupSeconds
	merged, err := readMeasured(d.TrialFile(r.ID, result.LatencyFile), hdrlog.Window{From: from, To: from + measureSeconds(r.Load)}, r.Load)
	return hdrlog.Dense(merged[latencies[0].tag]), err
}

// readMeasured reads the window of the log at path. It uses the sums beside the log
// if they hold as many answers as the load generator counted, else the log itself.
func readMeasured(path string, w hdrlog.Window, l *result.Load) (hdrlog.Sums, error) {
	want := cmp.Or(l.Recorded, l.Classes[string(load.OK)])
	merged, err := hdrlog.ReadFile(filepath.Join(filepath.Dir(path), result.MeasuredFile), w, latencyTags)
	if err == nil && want > 0 && answers(merged) == want {
		return merged, nil
	}
	return hdrlog.ReadFile(path, w, latencyTags)
}

// answers counts the response times, or the service times of a generator without response times.
func answers(m hdrlog.Sums) int64 {
	if n := m.Total(latencies[0].tag); n > 0 {
		return n
	}
	return m.Total(latencies[1].tag)
}
