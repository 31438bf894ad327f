package analysis

import (
	"github.com/HdrHistogram/hdrhistogram-go"

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
	merged, err := readLog(d.TrialFile(r.ID, result.LatencyFile), window{from, from + measureSeconds(r.Load)})
	if err != nil {
		return Histograms{}, err
	}
	return Histograms{Response: merged[latencies[0].tag], Service: merged[latencies[1].tag]}, nil
}
