package runner

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// A task that uses 1 ms in each slice without load, and 30 ms more for the requests of an own slice, whenever it
// answers them.
func TestLateAnswersAreNotIdle(t *testing.T) {
	const slice, idle, work = 100 * time.Millisecond, int64(1e6), int64(30e6)
	for name, c := range map[string]struct {
		spread  [][2]int64 // work in slices after the own one: number of slices later, share in percent
		lastEnd time.Duration
		overrun int64
	}{
		"in time":           {[][2]int64{{0, 100}}, 90 * time.Millisecond, 0},
		"in the next slice": {[][2]int64{{0, 60}, {1, 40}}, 150 * time.Millisecond, 0},
		"three slices late": {[][2]int64{{0, 10}, {1, 30}, {2, 30}, {3, 30}}, 350 * time.Millisecond, 60},
	} {
		m := &sliceMember{tasks: []platform.Task{{Task: mesh.Task{ID: "app", Plane: metric.App}}}, shown: shown{cpu: map[metric.Plane]int64{}}}
		const rows, each = 24, 6 // an own slice, then five of others
		used := make([]int64, rows)
		for i := range used {
			used[i] += idle
			if i%each == 0 {
				for _, s := range c.spread {
					used[i+int(s[0])] += work * s[1] / 100
				}
			}
		}
		read := func(cpu int64) meter.Look {
			return meter.Look{Tasks: map[string]result.Reading{"app": {CPU: cpu}}}
		}
		sum := int64(1e9)
		m.shown.at = time.Hour // no samples
		m.add(read(sum), -1, 0, false)
		for i, n := range used {
			sum += n
			m.add(read(sum), i, time.Duration(i+1)*slice, i%each == 0)
			if i%each == 0 {
				m.rows[i].SliceCount = load.SliceCount{Slice: i, Overrun: c.overrun, LastEnd: int64(time.Duration(i)*slice + c.lastEnd)}
			}
		}
		uses := m.uses()
		loaded, rest := uses.loaded("app")
		if want := rows / each * (work + idle); loaded != want {
			t.Errorf("%s: %d ns because of the load, want %d", name, loaded, want)
		}
		if want := (rows - rows/each) * idle; rest == nil || *rest != want {
			t.Errorf("%s: idle %v, want %d", name, rest, want)
		}
	}
}

// Without an idle slice the idle CPU is unknown.
func TestNoIdleSlice(t *testing.T) {
	for late, want := range map[bool]int64{false: 7, true: 10} {
		u := sliceUses{late: late}
		u.of[result.OwnSlice] = use{time.Second, map[string]int64{"app": 7}}
		u.of[result.AfterSlice] = use{time.Second, map[string]int64{"app": 3}}
		loaded, idle := u.loaded("app")
		if loaded != want || (idle == nil) != late {
			t.Errorf("late answers %v: %d, idle %v; want %d", late, loaded, idle, want)
		}
		if u.idleShare() != 0 {
			t.Errorf("idle share %v", u.idleShare())
		}
	}
}
