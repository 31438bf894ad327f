package analysis

import (
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
	defer merged.Free()
	return Histograms{Response: merged[latencies[0].tag].Histogram(), Service: merged[latencies[1].tag].Histogram()}, nil
}

// readMeasured reads the window of the log at path. It uses the sums beside the log
// if they hold as many answers as the load generator counted, else the log itself.
// The caller frees the sums.
func readMeasured(path string, w hdrlog.Window, l *result.Load) (hdrlog.Sums, error) {
	want := l.Recorded
	if want == 0 {
		want = l.Classes[string(load.OK)]
	}
	merged, err := hdrlog.ReadFile(filepath.Join(filepath.Dir(path), result.MeasuredFile), w, latencyTags)
	if err == nil && want > 0 && answers(merged).Total() == want {
		return merged, nil
	}
	merged.Free()
	return hdrlog.ReadFile(path, w, latencyTags)
}

// answers are the response times, or the service times of a generator without response times. Nil means neither.
func answers(m hdrlog.Sums) *hdrlog.Sum {
	if s := m[latencies[0].tag]; s != nil {
		return s
	}
	return m[latencies[1].tag]
}
