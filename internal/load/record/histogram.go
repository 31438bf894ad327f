package record

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/load"
)

// histogram sorts times (ns) into buckets, and leaves out empty ones.
func histogram(h *hdrhistogram.Histogram) []load.Bucket {
	var buckets []load.Bucket
	to, most := 0.0, h.Max() // ms and ns
	for _, bar := range h.Distribution() {
		if bar.Count == 0 {
			continue
		}
		if at := float64(min(bar.To, most)) / 1e6; at > to || buckets == nil {
			to = load.BoundAbove(at, load.HistogramBounds)
			buckets = append(buckets, load.Bucket{ToMS: to})
		}
		buckets[len(buckets)-1].Count += bar.Count
	}
	return buckets
}
