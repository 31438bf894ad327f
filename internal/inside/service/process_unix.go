//go:build unix

package service

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/scrape"
)

// addProcess adds metrics of this process, under the names of Prometheus's client libraries.
func addProcess(r *scrape.Registry) {
	r.Counter("process_cpu_seconds_total", "CPU time of the process, user and system, in seconds.", func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return 0 // impossible: the arguments are valid
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	})
	started := float64(time.Now().UnixMilli()) / 1e3
	r.Gauge("process_start_time_seconds", "Start of the process, in seconds since 1970.", func() float64 { return started })
	if _, err := residentPages(); err == nil {
		r.Gauge("process_resident_memory_bytes", "Resident memory, in bytes.", func() float64 {
			pages, _ := residentPages()
			return float64(pages) * float64(os.Getpagesize())
		})
	}
}

// residentPages reads the second field of /proc/self/statm (proc_pid_statm(5)).
func residentPages() (int64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(string(fields[1]), 10, 64)
}
