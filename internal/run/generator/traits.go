package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// Kinds of loop.
const (
	loopOpen   = "open"
	loopPaced  = "paced"
	loopClosed = "closed"
)

// traits are the features of an external generator. Profiles that need others are refused before the start, with
// the reason, and no feature is ignored.
type traits struct {
	name string // in experiment files, and of its program
	// loop is the kind of loop of a load with a rate, empty if no rate is supported.
	loop      string
	closed    bool // it has a closed loop
	protocols []string
	method    bool // other methods than GET
	body      bool // request bodies
	targets   bool // more than one
	// step is the resolution of durations, which are rounded up to a multiple of it.
	step time.Duration
	// calibration is the initial time of a run that the generator's figures omit.
	calibration time.Duration
	warmup      time.Duration // see [Needs.Warmup]
	whole       bool          // see [Needs.Whole]

	version    versionOf
	debian     string // its package, if Debian has one
	unpackaged bool   // no package registry has it

	// command returns the arguments, standard input and environment for a profile that passed check.
	command func(traits, load.Profile) (proc.Command, error)
	// parse reads the standard output of a run with a profile.
	parse func(io.Reader, load.Profile) (Outcome, error)
}

// versionOf is the argument with which a program prints its version, and the pattern of the version in the output.
// Some programs print it and exit with an error.
type versionOf struct{ argument, pattern string }

var foreign = []traits{ohaTraits, wrkTraits, wrk2Traits, vegetaTraits, fortioTraits}

// ignoringProfile adapts parsers that need only the output.
func ignoringProfile(parse func(io.Reader) (Outcome, error)) func(io.Reader, load.Profile) (Outcome, error) {
	return func(r io.Reader, _ load.Profile) (Outcome, error) { return parse(r) }
}

// Loops returns the kinds of loop that a generator supports: "open", "paced",
// "closed". It returns none for an unknown generator.
func Loops(generator string) []string {
	if generator == (Tare{}).Name() {
		return []string{loopOpen, loopClosed}
	}
	for _, t := range foreign {
		if t.name != generator {
			continue
		}
		var loops []string
		if t.loop != "" {
			loops = append(loops, t.loop)
		}
		if t.closed {
			loops = append(loops, loopClosed)
		}
		return loops
	}
	return nil
}

// maxArgument bounds a request body in a command line, in bytes.
const maxArgument = 64 << 10

// check returns an error with every reason why the generator does not support p.
// The error wraps errors.ErrUnsupported.
func (t traits) check(p load.Profile) error {
	var why []string
	refuse := func(when bool, format string, args ...any) {
		if when {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	refuse(!p.Start.IsZero(), "it starts when its process does: start the process at the instant, with no start in the profile")
	refuse(p.Rate > 0 && p.Arrivals != "" && p.Arrivals != "constant", "it has no %s arrivals, only constant ones", p.Arrivals)
	refuse(p.Rate > 0 && t.loop == "", "it keeps no rate: it is a closed loop")
	refuse(p.Rate == 0 && !t.closed, "it has no closed loop: it needs a rate")
	refuse(!slices.Contains(t.protocols, protocol(p)), "it does not speak %s, only %s", protocol(p), strings.Join(t.protocols, ", "))
	refuse(method(p) != "GET" && !t.method && p.RequestSize == 0, "it sends no %s requests", method(p))
	refuse(p.RequestSize > 0 && !t.body, "it sends no request bodies from here")
	refuse(p.RequestSize > maxArgument, "a request body of %d bytes does not fit its command line (%d)", p.RequestSize, maxArgument)
	refuse(len(p.ExpectStatus)+len(p.BodyHas)+len(p.BodyLacks)+len(p.JSONHas)+len(p.JSONLacks) > 0, "it does not check statuses, bodies or JSON fields")
	refuse(len(p.Segments) > 0, "its rate is constant, and load.profile changes it")
	refuse(slices.ContainsFunc(p.Headers, func(h string) bool { return !isHost(h) }), "its command line, which is recorded, has no header of load.headers but Host")
	refuse(len(p.Calls) > 0, "it sends one kind of request, not those of load.requests")
	refuse(p.Stream != "", "it has no times of messages")
	refuse(p.ConnectionRate != 0, "it keeps its connections: it has no new ones per second")
	refuse(p.Slices != nil, "it cannot share a schedule in slices")
	refuse(len(p.Targets) > 1 && !t.targets, "it has one target, not %d", len(p.Targets))
	if why != nil {
		return fmt.Errorf("load profile for %s: %s: %w", t.name, strings.Join(why, "; "), errors.ErrUnsupported)
	}
	return t.valid(p)
}

// valid refuses profiles that no generator supports, and values that a command line would misparse.
func (t traits) valid(p load.Profile) error {
	var errs []error
	refuse := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(len(p.Targets) == 0, "no target")
	for _, target := range p.Targets {
		u, err := url.Parse(target)
		refuse(err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || strings.ContainsAny(target, " \t\r\n"),
			"target %q is not an http or https URL", target)
	}
	m := method(p)
	refuse(m == "" || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "", "method %q is not a token", p.Method)
	refuse(math.IsNaN(p.Rate) || math.IsInf(p.Rate, 0) || p.Rate < 0, "rate %v is none", p.Rate)
	refuse(p.Connections < 1, "%d connections", p.Connections)
	refuse(p.Measure <= 0 || p.Warmup < 0 || p.Tail < 0, "durations: warm-up %v, measure %v, tail %v", p.Warmup, p.Measure, p.Tail)
	if errs == nil {
		return nil
	}
	return fmt.Errorf("load profile for %s: %w", t.name, errors.Join(errs...))
}

// host returns the header Host of p's requests, the last of several. Empty: the target's host.
func host(p load.Profile) (value string) {
	for _, h := range p.Headers {
		if isHost(h) {
			_, value, _ = strings.Cut(h, ":")
		}
	}
	return strings.TrimSpace(value)
}

func isHost(header string) bool {
	name, _, _ := strings.Cut(header, ":")
	return strings.EqualFold(name, "host")
}

// duration returns the duration of the whole run. The warm-up is at least as long
// as the generator's calibration.
func (t traits) duration(p load.Profile) time.Duration {
	d := max(p.Warmup, t.calibration) + p.Measure + p.Tail
	if step := t.step; step > 0 {
		d = (d + step - 1) / step * step
	}
	return d
}

func protocol(p load.Profile) string { return cmp.Or(p.Protocol, "http1") }

func method(p load.Profile) string {
	if p.Method == "" && p.RequestSize > 0 {
		return "POST"
	}
	return cmp.Or(p.Method, "GET")
}

// body returns the body of a request: the same bytes for every generator.
func body(p load.Profile) string { return strings.Repeat("x", int(p.RequestSize)) }

// threads returns the number of threads: min 1, max the number of connections.
func threads(p load.Profile) string {
	return strconv.Itoa(max(1, min(p.Workers, p.Connections)))
}

// decimal formats f without an exponent, which not every generator parses.
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// milliseconds formats d, rounded up to ms, in a notation that Go and Rust programs parse.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt((d+time.Millisecond-1).Milliseconds(), 10) + "ms"
}

func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Needs are the requirements of a generator that ignores the profile's schedule.
type Needs struct {
	// AtOnce reports that the load begins when the process starts. Command gets a
	// profile without Start, and Parse gets the start of the process as Start.
	AtOnce bool
	// Warmup is the shortest warm-up for which the figures cover the measure window.
	// With a shorter one wrk2 omits the beginning of the window.
	Warmup time.Duration
	// Whole reports that the figures are of the whole run, also if an interval log is requested.
	Whole bool
}

// external is a generator with a program of others.
type external struct {
	traits
	path string // of the program, or empty to find it by its name on PATH
}

func (g external) Name() string { return g.name }

func (g external) Command(p load.Profile) (proc.Command, error) {
	if err := g.check(p); err != nil {
		return proc.Command{}, err
	}
	c, err := g.command(g.traits, p)
	if err != nil {
		return proc.Command{}, err
	}
	cpus := lists.Map(p.CPUs, strconv.Itoa)
	c.Path, c.CPUs = cmp.Or(g.path, g.name), strings.Join(cpus, ",")
	return c, nil
}

func (g external) Parse(stdout io.Reader, p load.Profile, _ func(load.Progress)) (result.Load, error) {
	o, err := g.parse(stdout, p)
	if err != nil {
		return result.Load{}, err
	}
	return g.result(o, p)
}

func (g external) Abilities() Abilities {
	return Abilities{Find: func(ctx context.Context) (Found, error) { return g.find(ctx) }, Needs: Needs{AtOnce: true, Warmup: g.warmup, Whole: g.whole}}
}
