package generator

import (
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// Needs are the requirements of a generator that ignores the profile's schedule.
type Needs struct {
	// AtOnce reports that the load begins when the process starts. Command gets a
	// profile without Start, and Parse gets the start of the process as Start.
	AtOnce bool
	// Warmup is the shortest warm-up for which the figures cover the measure window.
	// With a shorter one wrk2 omits the beginning of the window and k6 is refused.
	Warmup time.Duration
	// Whole reports that the figures are of the whole run, also if an interval log is requested.
	Whole bool
}

// external is a generator with a program of others.
type external struct {
	traits
	path string // of the program, or empty to find it by its name on PATH
}

// Name implements [Generator].
func (g external) Name() string { return g.name }

// Command implements [Generator].
func (g external) Command(p load.Profile) (proc.Command, error) {
	if err := g.check(p); err != nil {
		return proc.Command{}, err
	}
	c, err := g.command(g.traits, p)
	if err != nil {
		return proc.Command{}, err
	}
	cpus := make([]string, len(p.CPUs))
	for i, n := range p.CPUs {
		cpus[i] = strconv.Itoa(n)
	}
	c.Path, c.CPUs = cmp.Or(g.path, g.name), strings.Join(cpus, ",")
	return c, nil
}

// Parse implements [Generator].
func (g external) Parse(stdout io.Reader, p load.Profile, _ func(load.Progress)) (result.Load, error) {
	o, err := g.parse(stdout, p)
	if err != nil {
		return result.Load{}, err
	}
	return g.result(o, p)
}

// Abilities implements [Generator].
func (g external) Abilities() Abilities {
	return Abilities{Find: func(ctx context.Context) (Found, error) { return g.find(ctx) }, Needs: Needs{AtOnce: true, Warmup: g.warmup, Whole: g.whole}}
}
