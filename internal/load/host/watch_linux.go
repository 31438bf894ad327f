package host

import (
	"github.com/prometheus/procfs"
)

// reading is one reading of the machine's counters.
type reading struct {
	steal, all float64 // CPU seconds since boot
	pressure   float64 // s since boot in which some task waited for a CPU
}

// read reads /proc, where unreadable figures are zero.
func read() (h reading) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return h
	}
	if s, err := fs.Stat(); err == nil {
		c := s.CPUTotal
		h.steal = c.Steal
		// Guest time is part of user time already.
		h.all = c.User + c.Nice + c.System + c.Idle + c.Iowait + c.IRQ + c.SoftIRQ + c.Steal
	}
	if p, err := fs.PSIStatsForResource("cpu"); err == nil && p.Some != nil {
		h.pressure = float64(p.Some.Total) / 1e6
	}
	return h
}
