//go:build linux

package local

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// One reading of the counters of requests is work of the measured processes. Its CPU, in µs by plane, is why
// counters are not read at the edges of slices: docs/reference/conservation.md has figures.
func BenchmarkRequestCounts(b *testing.B) {
	for _, name := range []string{"none", "reference", "envoy"} {
		b.Run(name, func(b *testing.B) {
			m := must.Get(mesh.Load(name))(b)
			p := New(Options{AgentPath: agent, FetchProgram: fetchProgram})
			d := must.Get(p.Deploy(b.Context(), platform.Spec{Mesh: m, Topology: topology(map[string]string{"a": ""}), Provenance: b.TempDir()}))(b)
			defer func() {
				if err := d.Remove(b.Context()); err != nil {
					b.Error(err)
				}
			}()
			before := cpuByPlane(b, d)
			for b.Loop() {
				must.Get(d.RequestCounters.RequestCounts(b.Context()))(b)
			}
			for plane, ns := range cpuByPlane(b, d) {
				b.ReportMetric(float64(ns-before[plane])/1e3/float64(b.N), plane+"-µs/op")
			}
		})
	}
}

// cpuByPlane is the CPU that the tasks of a deployment have used, ns.
func cpuByPlane(b *testing.B, d *platform.Deployment) map[string]int64 {
	b.Helper()
	tasks := must.Get(d.Tasks(b.Context()))(b)
	used := map[string]int64{}
	for _, task := range tasks {
		const processClock = 2 // CPUCLOCK_SCHED of a process, see clock_getcpuclockid(3)
		var at unix.Timespec
		if err := unix.ClockGettime(int32(^task.PID<<3|processClock), &at); err != nil {
			b.Fatalf("%s: %v", task.ID, err)
		}
		used[string(task.Plane)] += at.Nano()
	}
	return used
}
