package generator

import (
	"io"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

var wrkTraits = traits{name: "wrk", closed: true, protocols: []string{"http1"}, step: time.Second}

// Wrk is github.com/wg/wrk: a closed loop, for capacity tests.
type Wrk struct{ program }

// Name is the generator's name in experiment files.
func (Wrk) Name() string { return wrkTraits.name }

// Command runs wrk with --latency output.
func (g Wrk) Command(p load.Profile) (proc.Command, error) {
	if err := wrkTraits.check(p); err != nil {
		return proc.Command{}, err
	}
	return g.command(wrkTraits.name, p, append(wrkArgs(wrkTraits, p), "--latency", p.Targets[0])...), nil
}

// wrkArgs returns the common arguments of wrk and wrk2. Both accept whole seconds only.
func wrkArgs(t traits, p load.Profile) []string {
	args := []string{"-t", threads(p), "-c", strconv.Itoa(p.Connections), "-d", strconv.FormatInt(wholeSeconds(t.duration(p)), 10) + "s"}
	if p.Timeout > 0 {
		args = append(args, "--timeout", strconv.FormatInt(wholeSeconds(p.Timeout), 10)+"s")
	}
	if h := host(p); h != "" {
		args = append(args, "-H", "Host: "+h)
	}
	return args
}

// Parse reads wrk's text.
func (Wrk) Parse(stdout io.Reader, p load.Profile, _ func(load.Progress)) (result.Load, error) {
	o, err := ParseWrk(stdout)
	if err != nil {
		return result.Load{}, err
	}
	return wrkTraits.result(o, p)
}

// ParseWrk reads the text of wrk, which counts 3xx responses as successful.
func ParseWrk(r io.Reader) (Outcome, error) {
	w := wrkReader{o: Outcome{Generator: "wrk"}, stats: ofService}
	return w.read(r)
}

var wrk2Traits = traits{name: "wrk2", loop: loopOpen, protocols: []string{"http1"}, step: time.Second, calibration: 10 * time.Second}

// Wrk2 is github.com/giltene/wrk2: a constant rate on every connection. Its build
// names the program wrk, but tare expects the name wrk2.
type Wrk2 struct{ program }

// Name is the generator's name in experiment files.
func (Wrk2) Name() string { return wrk2Traits.name }

// Command extends the warm-up to the ten seconds that wrk2's figures omit, and
// enables both of wrk2's latencies.
func (g Wrk2) Command(p load.Profile) (proc.Command, error) {
	if err := wrk2Traits.check(p); err != nil {
		return proc.Command{}, err
	}
	if p.Rate != float64(int64(p.Rate)) || p.Rate < float64(max(1, p.Workers)) {
		return proc.Command{}, refused(wrk2Traits.name, "its rate is whole requests per second, at least one a thread, not %v", p.Rate)
	}
	return g.command(wrk2Traits.name, p, append(wrkArgs(wrk2Traits, p), "-R", decimal(p.Rate), "-U", "-L", p.Targets[0])...), nil
}

// Parse reads wrk2's text.
func (Wrk2) Parse(stdout io.Reader, p load.Profile, _ func(load.Progress)) (result.Load, error) {
	o, err := ParseWrk2(stdout)
	if err != nil {
		return result.Load{}, err
	}
	return wrk2Traits.result(o, p)
}

// ParseWrk2 reads the text of wrk2 -L, with or without -U.
func ParseWrk2(r io.Reader) (Outcome, error) {
	w := wrkReader{o: Outcome{Generator: "wrk2"}, stats: ofResponse}
	return w.read(r)
}
