package figures

import (
	"cmp"
	"path/filepath"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// Histograms are the answered requests of one trial's measure window, in
// nanoseconds. One that the load generator does not keep is nil.
type Histograms struct {
	Response *hdrhistogram.Histogram // from the intended start
	Service  *hdrhistogram.Histogram // from the actual send
}

// TrialHistograms reads them. A trial without a latency log is an error that is fs.ErrNotExist.
func TrialHistograms(d *result.Dir, r *result.Record) (Histograms, error) {
	if r.Load == nil {
		return Histograms{}, nil
	}
	from := r.Load.WarmupSeconds
	merged, err := readMeasured(d.TrialFile(r.ID, result.LatencyFile), hdrlog.Window{From: from, To: from + measureSeconds(r.Load)}, r.Load)
	if err != nil {
		return Histograms{}, err
	}
	return Histograms{Response: hdrlog.Dense(merged[latencies[0].tag]), Service: hdrlog.Dense(merged[latencies[1].tag])}, nil
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
