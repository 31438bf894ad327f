//go:build linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A run whose threads all sleep hangs after the limit, however busy the machine is. One that waits for a processor has
// its limit extended by that, and is given up in the end without a judgement.
func TestAllowance(t *testing.T) {
	const second = time.Second
	for _, test := range []struct {
		name   string
		thread func(n time.Duration) thread // after n ticks of a second
		stolen float64                      // part of the machine's time
		after  int                          // ticks
		want   error
	}{
		{"asleep", func(time.Duration) thread { return thread{used: second, waited: second} }, 0, 11, errHangs},
		{"it runs without end", func(n time.Duration) thread { return thread{n * second, 0, true} }, 0, 11, errHangs},
		{"half of a processor", func(n time.Duration) thread { return thread{n * second / 2, n * second / 2, true} }, 0, 21, errHangs},
		{"half of the machine is stolen", func(time.Duration) thread { return thread{} }, 0.5, 21, errHangs},
		{"a wait that has not ended", func(time.Duration) thread { return thread{second, second, true} }, 0, 101, errStarved},
		{"a wait that is counted at its end", func(n time.Duration) thread { return thread{n / 10 * second / 10, n / 10 * 10 * second, true} }, 0, 101, errStarved},
	} {
		p := &allowance{limit: 10 * second, threads: map[int]thread{7: test.thread(0)}}
		start, n := time.Time{}, 0
		for ; p.over() == nil && n < 1000; n++ {
			at := time.Duration(n + 1)
			p.look(start.Add(at*second), map[int]thread{7: test.thread(at)}, machine{all: float64(100 * at), stolen: 100 * float64(at) * test.stolen})
		}
		if n != test.after || !errors.Is(p.over(), test.want) {
			t.Errorf("%s: %v after %d s, %v", test.name, p.over(), n, p)
		}
	}
}

// By the kernel's counters a process that waits for a processor differs from one that sleeps.
func TestThreadsThatWait(t *testing.T) {
	strand := "allowance-test"
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		t.Fatal(err)
	}
	first := 0
	for !cpus.IsSet(first) {
		first++
	}
	given := func(count int, script string) float64 {
		for range count {
			cmd := exec.Command("sh", "-c", script)
			cmd.Env = append(os.Environ(), marker+"="+strand)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			one := unix.CPUSet{}
			one.Set(first)
			if err := unix.SchedSetaffinity(cmd.Process.Pid, &one); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
		}
		p := newAllowance(time.Hour, strand)
		if len(p.threads) != count {
			t.Fatalf("%d threads of %d processes", len(p.threads), count)
		}
		time.Sleep(time.Second)
		p.look(time.Now(), threadsOf(strand), thisMachine())
		return p.share()
	}
	asleep := given(1, "exec sleep 60")
	busy := given(4, "while :; do :; done")
	if busy > 0.6 || asleep < busy+0.3 {
		t.Errorf("a sleeping process had %.2f of its time, four that share a processor %.2f", asleep, busy)
	}
}
