package expect

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/load"
)

// ReadSeconds reads n seconds of an interval log, from the given one on, counted
// from the log's start time. A second in which nothing was intended is empty.
func ReadSeconds(path string, first, n int) ([]Second, error) {
	f, err := hdrlog.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read interval log: %w", err)
	}
	defer f.Close()
	seconds := make([]Second, max(0, n))
	err = hdrlog.ReadSeconds(f, func(second int, tag string, h *hdrhistogram.PackedHistogram) error {
		if i := second - first; i >= 0 && i < len(seconds) {
			addTo(&seconds[i], tag, h)
		}
		return nil
	})
	return seconds, err
}

func addTo(s *Second, tag string, h *hdrhistogram.PackedHistogram) {
	switch n := h.TotalCount(); tag {
	case load.TagResponse + string(load.OK):
		if s.OK += n; s.Latency == nil {
			s.Latency = hdrlog.Dense(h)
		} else {
			h.MergeInto(s.Latency) // a part of a divided second
		}
	case load.TagResponse + string(load.Status):
		s.Status += n
	case load.TagResponse + string(load.Timeout), load.TagResponse + string(load.Conn):
		s.Other += n
	}
}
