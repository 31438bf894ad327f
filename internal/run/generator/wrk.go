package generator

import (
	"io"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
)

// wrkTraits describes github.com/wg/wrk: a closed loop, for capacity tests.
var wrkTraits = traits{name: "wrk", closed: true, protocols: []string{"http1"}, step: time.Second, whole: true, debian: "wrk",
	version: versionOf{"--version", `wrk (?:debian/)?([0-9][^\s]*)`}, command: wrkCommand, parse: ignoringProfile(ParseWrk)}

// wrk2Traits describes github.com/giltene/wrk2: a constant rate on every connection. Its build names the program wrk, but tare
// expects the name wrk2.
var wrk2Traits = traits{name: "wrk2", loop: loopOpen, protocols: []string{"http1"}, step: time.Second, whole: true,
	calibration: 10 * time.Second, warmup: 10 * time.Second, unpackaged: true,
	version: versionOf{"--version", `wrk ([0-9][^\s]*)`}, command: wrk2Command, parse: ignoringProfile(ParseWrk2)}

func wrkCommand(t traits, p load.Profile) (proc.Command, error) {
	return proc.Command{Args: append(wrkArgs(t, p), "--latency", p.Targets[0])}, nil
}

// wrk2Command extends the warm-up to the ten seconds that wrk2's figures omit, and enables both of its latencies.
func wrk2Command(t traits, p load.Profile) (proc.Command, error) {
	if p.Rate != float64(int64(p.Rate)) || p.Rate < float64(max(1, p.Workers)) {
		return proc.Command{}, refused(t.name, "its rate is whole requests per second, at least one a thread, not %v", p.Rate)
	}
	return proc.Command{Args: append(wrkArgs(t, p), "-R", decimal(p.Rate), "-U", "-L", p.Targets[0])}, nil
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

// ParseWrk reads the text of wrk, which counts 3xx responses as successful.
func ParseWrk(r io.Reader) (Outcome, error) {
	w := wrkReader{o: Outcome{Generator: "wrk"}, stats: ofService}
	return w.read(r)
}

// ParseWrk2 reads the text of wrk2 -L, with or without -U.
func ParseWrk2(r io.Reader) (Outcome, error) {
	w := wrkReader{o: Outcome{Generator: "wrk2"}, stats: ofResponse}
	return w.read(r)
}
