//go:build linux

package local

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
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
				must.Get(d.RequestCounts(b.Context()))(b)
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

// The size of a request is learned although the bytes of some are announced late, or never arrive.
func TestRequestSizes(t *testing.T) {
	for _, c := range []struct {
		arrived string
		size    int64
		unknown string
	}{
		{"150 150 150 150", 150, ""},
		{"150 0 300 150 150 150", 150, ""},            // announced during the next request
		{"0 0 450 150 150 150 150", 150, ""},          // two requests later
		{"150 0 150 150 0 150 150 150", 150, ""},      // answered by a proxy
		{"150 150 300 150 150 300 150 150", 150, ""},  // repeated
		{"0 300 0 300 0 300 150 150", 0, "too few"},   // seen twice
		{"150 160 150 160 150 160", 0, "150:3 160:3"}, // they differ
		{"0 0 0 0", 0, "too few requests arrive to learn their size: 0, 4 needed"},
	} {
		var sizes requestSizes
		for field := range strings.FieldsSeq(c.arrived) {
			sizes.add(must.Get(strconv.ParseInt(field, 10, 64))(t))
		}
		size, err := sizes.common()
		if size != c.size || (err == nil) != (c.unknown == "") || err != nil && !strings.Contains(err.Error(), c.unknown) {
			t.Errorf("%s: %d, %v, want %d and %q", c.arrived, size, err, c.size, c.unknown)
		}
	}
}
