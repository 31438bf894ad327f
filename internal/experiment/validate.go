package experiment

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// The bounds of what is possible. They are there to catch slips of the
// keyboard, not to forbid large experiments.
const (
	MaxTrials = 10_000

	maxRate        = 10e6
	maxConnections = 100_000
	maxReplicas    = 1000
	maxBodySize    = Size(1 << 30)
	maxWorkers     = 256
	maxPhase       = Duration(24 * time.Hour)
	minMeasure     = Duration(time.Second)
	maxTimeout     = Duration(60 * time.Second) // the histograms end there
	maxSeed        = 1<<53 - 1                  // every JSON reader keeps it exact
	maxCPU         = 1023                       // CPU_SETSIZE of Linux
	maxLevels      = 1000
)

// planesToPin are the planes whose processors can be chosen.
var planesToPin = []string{"app", "data", "load", "control", "harness"}

// affinities are the ways to place pods, the default first.
var affinities = []string{"auto", "labels", "none"}

// inUse are the ways to treat a cluster that is in use, the default first.
var inUse = []string{"refuse", "allow"}

var arrivals = []string{"constant", "poisson", "uniform"}

// validation holds what the checks share.
type validation struct {
	doc   *strict.Document
	e     *Experiment
	known Known
	dir   string // of the experiment file
}

func validate(doc *strict.Document, e *Experiment, known Known, dir string) {
	v := validation{doc, e, known, dir}
	v.header()
	v.platform()
	v.meter()
	v.outside()
	v.images()
	v.digests()
	v.application()
	v.namespace()
	v.resources()
	v.factors()
	v.forwards()
	v.meshes()
	v.gateway()
	v.load()
	v.phases()
	v.repetition()
	v.baseline()
	v.limits()
	v.faults()
}

// report adds a mistake unless one is known about the same place.
func (v validation) report(path, hint, format string, args ...any) {
	if v.doc.Sound(path) {
		v.doc.Report(path, fmt.Sprintf(format, args...), hint)
	}
}

// within reports a number outside its bounds.
func within[T int | uint64 | float64 | Size | Duration | Rate | Cores](v validation, path string, x, low, high T, hint string) {
	if x < low || x > high {
		v.report(path, hint, "%v is not between %v and %v", x, low, high)
	}
}

// oneOf reports an unknown name; an empty list of known ones allows all.
func (v validation) oneOf(path, what, name string, known []string) {
	switch {
	case name == "":
		v.report(path, "", "no %s is named", what)
	case len(known) > 0 && !slices.Contains(known, name):
		v.report(path, strict.DidYouMean(name, known), "unknown %s %q", what, clip(name))
	}
}

func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

func (v validation) header() {
	v.fixed("apiVersion", v.e.APIVersion, APIVersion)
	v.fixed("kind", v.e.Kind, Kind)
	switch name := v.e.Metadata.Name; {
	case name == "":
		v.report("metadata.name", "add metadata: {name: my-experiment}", "no name is given")
	case !app.IsLabel(name):
		v.report("metadata.name", "use lower-case letters, digits and -, at most 63, beginning and ending with a letter or digit",
			"%q is not a DNS label", clip(name))
	}
}

// fixed reports a field that has one possible value and not that.
func (v validation) fixed(path, value, want string) {
	switch {
	case !v.doc.Has(path):
		v.report(path, "write "+path+": "+want, "missing, expected %q", want)
	case value != want:
		v.report(path, "write "+path+": "+want, "found %q, expected %q", clip(value), want)
	}
}

func (v validation) platform() {
	v.oneOf("platform.kind", "platform", v.e.Platform.Kind, v.known.Platforms)
	if v.e.Platform.Kind == "local" {
		for _, field := range []string{"context", "kubeconfig", "image", "affinity", "inUse", "namespace", "resources", "digests"} {
			if v.doc.Has("platform." + field) {
				v.report("platform."+field, "leave it out", "it is of clusters, and the platform is local")
			}
		}
	}
	if a := v.e.Platform.Affinity; a != "" {
		v.oneOf("platform.affinity", "affinity", a, affinities)
	}
	if u := v.e.Platform.InUse; u != "" {
		v.oneOf("platform.inUse", "way to treat a cluster in use", u, inUse)
	}
	if v.e.Platform.Kind == "kubernetes" && len(v.e.Platform.CPUs) > 0 {
		v.report("platform.cpus", "leave it out, or --set platform.cpus={}", "a cluster chooses the processors itself")
	}
	for _, plane := range sortedKeys(v.e.Platform.CPUs) {
		path := "platform.cpus." + plane
		if !slices.Contains(planesToPin, plane) {
			v.report(path, strict.DidYouMean(plane, planesToPin), "there is no such plane to pin")
		} else if _, err := ParseCPUs(v.e.Platform.CPUs[plane]); err != nil {
			v.report(path, `write it as taskset does: "0-3,6"`, "%v", err)
		}
	}
}

func (v validation) application() {
	a := v.e.Application
	inline := len(a.Services) > 0 || v.doc.Has("application.services")
	switch {
	case v.doc.Has("factors.topology"):
		v.asFactor()
		return
	case inline && v.doc.Has("application.topology"):
		v.report("application.topology", "remove one of the two", "a topology is named and services are given as well")
	case inline:
		v.e.inline().Validate(v.doc, "application.")
	default:
		v.topology()
	}
	v.chart(inline)
}

// topology checks that the named topology is there. A file's services are
// taken into the experiment, so that the rendered file stands alone.
func (v validation) topology() {
	name := v.e.Application.Topology
	if !v.doc.Sound("application.topology") {
		return
	}
	find := v.known.Topology
	if find == nil {
		find = app.Load
	}
	isFile := app.IsFile(name)
	if isFile && !filepath.IsAbs(name) {
		name = filepath.Join(v.dir, name)
	}
	if isFile && !app.IsFile(name) { // "./dir" beside the file became "dir", which would be a name
		name = "./" + name
	}
	t, err := find(name)
	var ps strict.Problems
	switch {
	case errors.As(err, &ps):
		for _, p := range ps {
			v.doc.Report("application.topology", p.Error(), p.Hint)
		}
		return
	case err != nil:
		names := v.known.Topologies
		if names == nil {
			names = app.Names()
		}
		hint := strict.DidYouMean(name, names)
		if isFile {
			hint = "the path is relative to the experiment file"
		}
		v.report("application.topology", hint, "%s", clipError(err))
		return
	}
	if entry := v.e.Application.Entry; entry != "" {
		if _, ok := t.Service(entry); !ok {
			v.report("application.entry", "", "the topology has no service %q", clip(entry))
		}
	}
	if isFile {
		v.e.Application.Topology, v.e.Application.Services = "", t.Services
		if t.Chart != nil {
			v.e.Application.Chart = t.Chart
		}
		if v.e.Application.Entry == "" {
			v.e.Application.Entry = t.Entry
		}
	}
}

func clipError(err error) string {
	const most = 200
	if r := []rune(err.Error()); len(r) > most {
		return string(r[:most]) + "…"
	}
	return err.Error()
}

func (v validation) load() {
	l := v.e.Load
	v.oneOf("load.generator", "generator", l.Generator, v.known.Generators)
	v.oneOf("load.arrivals", "distribution of arrivals", l.Arrivals, arrivals)
	within(v, "load.timeout", l.Timeout, Duration(time.Millisecond), maxTimeout, "")
	v.checks()
	within(v, "load.workers", l.Workers, 1, maxWorkers, "one worker sends tens of thousands of requests per second")
	if !v.doc.Sound("load.workers") {
		return
	}
	for i, c := range v.e.Factors.Connections {
		if c >= 1 && c < l.Workers {
			v.report(fmt.Sprintf("factors.connections[%d]", i), "every worker needs a connection of its own",
				"%d is fewer than the %d workers of the load generator", c, l.Workers)
		}
	}
	if c := DefaultLevels().Connections; len(v.e.Factors.Connections) == 0 && c < l.Workers {
		v.report("load.workers", "name more in factors.connections", "%d is more than the %d connections", l.Workers, c)
	}
}

func (v validation) phases() {
	p := v.e.Phases
	within(v, "phases.warmup", p.Warmup, 0, maxPhase, "")
	within(v, "phases.measure", p.Measure, minMeasure, maxPhase, "")
	within(v, "phases.drain", p.Drain, 0, maxPhase, "")
	within(v, "phases.idle.cpu", p.Idle.CPU, 0, maxCPU, "cores; 0.1 is 100 millicores")
	within(v, "phases.idle.memory", p.Idle.Memory, 0, 1<<50, "")
	within(v, "phases.idle.deadline", p.Idle.Deadline, 0, maxPhase, "")
}

func (v validation) repetition() {
	v.blocks()
	v.order()
	within(v, "seed", v.e.Seed, 0, maxSeed, "")
	if c := v.e.Confidence; c <= 0.5 || c >= 1 {
		v.report("confidence", "write 0.95 for intervals of 95 %", "%v is not above 0.5 and below 1", c)
	}
	if !v.doc.Sound("factors") || !v.doc.Sound("blocks") || !v.doc.Sound("control") {
		return
	}
	v.trials()
}

// trials bounds the product of factors, controls and blocks.
func (v validation) trials() {
	treatments, controls := 1, 1
	var product []string
	for _, f := range v.e.Factors.Named() {
		n := len(f.Levels)
		product = append(product, fmt.Sprintf("%d %s", n, f.Name))
		// Capped, so that seven long lists do not overflow.
		treatments = min(treatments*n, 1e12)
		if !v.e.Baseline.names(f.Name) {
			controls = min(controls*n, 1e12)
		}
	}
	times := strings.Join(product, " × ")
	total := treatments * v.e.Blocks.Max
	if v.e.Control && v.e.Baseline != nil {
		total += controls * v.e.Blocks.Max
		times += " with controls"
	}
	if total > MaxTrials {
		v.report("factors", "leave out levels or blocks, or split the experiment", "%s × %d blocks is %d trials, more than %d",
			times, v.e.Blocks.Max, total, MaxTrials)
	}
}

func (v validation) limits() {
	l := v.e.Validity
	for _, r := range []struct {
		name  string
		value float64
	}{
		{"errorRatio", l.ErrorRatio}, {"rateShortfall", l.RateShortfall},
		{"unattributed", l.Unattributed}, {"generatorCPU", l.GeneratorCPU},
	} {
		within(v, "validity."+r.name, r.value, 0, 1, "it is a ratio: 0.01 is 1 %")
	}
	within(v, "validity.lateness", l.Lateness, 0, maxTimeout, "")
}
