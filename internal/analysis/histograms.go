package analysis

import (
	"path/filepath"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/loadgen"
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
	merged, err := readMeasured(d.TrialFile(r.ID, result.LatencyFile), window{from, from + measureSeconds(r.Load)}, r.Load)
	if err != nil {
		return Histograms{}, err
	}
	return Histograms{Response: merged[latencies[0].tag], Service: merged[latencies[1].tag]}, nil
}

// readMeasured reads the window of the log at path: from the sums beside it where
// they hold as many answers as the load generator counted, else from the log itself.
func readMeasured(path string, w window, l *result.Load) (map[string]*hdrhistogram.Histogram, error) {
	want := l.Recorded
	if want == 0 {
		want = l.Classes[string(loadgen.OK)]
	}
	sums, err := readLog(filepath.Join(filepath.Dir(path), result.MeasuredFile), w)
	if err == nil && want > 0 {
		h := sums[latencies[0].tag]
		if h == nil {
			h = sums[latencies[1].tag]
		}
		if h != nil && h.TotalCount() == want {
			return sums, nil
		}
	}
	return readLog(path, w)
}
