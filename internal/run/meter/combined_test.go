package meter_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// named reads every task as the CPU time that it has as a meter.
type named struct {
	cpu      int64
	err      error
	follower meter.Follower
}

func (n named) Read(_ context.Context, tasks []platform.Task, _ meter.Depth) (meter.Look, error) {
	look := meter.Look{Tasks: map[string]result.Reading{}}
	for _, t := range tasks {
		look.Tasks[t.ID] = result.Reading{At: time.Now(), CPU: n.cpu}
	}
	return look, n.err
}

func (n named) Follower() meter.Follower { return n.follower }

// planned gives the readings of a meter one by one, without a wait.
type planned struct {
	meter  named
	groups [][]platform.Task
	left   []time.Time
}

func (p *planned) Follow(_ context.Context, groups [][]platform.Task, at []time.Time) (meter.Following, error) {
	p.groups, p.left = groups, at
	return p, nil
}

func (p *planned) Next(ctx context.Context) (read []meter.Instant, done bool, err error) {
	one := meter.Instant{At: p.left[0]}
	for _, tasks := range p.groups {
		look, _ := p.meter.Read(ctx, tasks, meter.Clocks)
		one.Looks = append(one.Looks, look)
	}
	p.left = p.left[1:]
	return []meter.Instant{one}, len(p.left) == 0, nil
}

// A cluster's meter combined with the local one plans readings as before, and each has the processes of this machine too.
func TestCombinedFollows(t *testing.T) {
	there := named{cpu: 1, follower: &planned{meter: named{cpu: 1}}}
	f := meter.Combine(there, named{cpu: 2}).Follower()
	if f == nil {
		t.Fatal("no plans of readings")
	}
	groups := [][]platform.Task{{task("pod", 0), task("process", 7)}, {task("other", 0)}}
	at := []time.Time{time.Now(), time.Now().Add(time.Millisecond), time.Now().Add(20 * time.Millisecond)}
	following := must.Get(f.Follow(t.Context(), groups, at))(t)
	for n := range at {
		read, done, err := following.Next(t.Context())
		if err != nil || len(read) != 1 || done != (n == len(at)-1) {
			t.Fatalf("instant %d: %+v, %v, %v", n, read, done, err)
		} else if d := difftest.Wrong("!read[0].At.Equal(at[n])", !read[0].At.Equal(at[n])); d != "" {
			t.Fatalf("%s: instant %d: %+v, %v, %v", d, n, read, done, err)
		}
		for i, want := range []map[string]int64{{"pod": 1, "process": 2}, {"other": 1}} {
			for id, cpu := range want {
				if r := read[0].Looks[i].Tasks[id]; r.CPU != cpu || len(read[0].Looks[i].Tasks) != len(want) {
					t.Errorf("instant %d: %s is %+v", n, id, read[0].Looks[i].Tasks)
				}
			}
			if r := read[0].Looks[i].Tasks["process"]; i == 0 && r.At.Before(at[n]) {
				t.Errorf("instant %d: process read %v early", n, at[n].Sub(r.At))
			}
		}
	}
}

// An error of this machine's meter ends the plan. Without a plan of the other meter there is none.
func TestCombinedFollowsWithErrors(t *testing.T) {
	lost := errors.New("lost")
	there := named{follower: &planned{}}
	following := must.Get(meter.Combine(there, named{err: lost}).Follower().Follow(t.Context(), [][]platform.Task{{task("process", 7)}}, []time.Time{time.Now()}))(t)
	if _, _, err := following.Next(t.Context()); !errors.Is(err, lost) {
		t.Errorf("%v, want %v", err, lost)
	}
	if f := meter.Combine(named{}, named{}).Follower(); f != nil {
		t.Errorf("plans of %T without a plan of the meter beside", f)
	}
}

func task(id string, pid int) platform.Task {
	t := platform.Task{PID: pid}
	t.ID = id
	return t
}
