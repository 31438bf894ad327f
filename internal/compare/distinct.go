package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
)

// Distinction is one thing in which two runs differ.
type Distinction struct {
	What string `json:"what"`
	Base string `json:"base"` // empty: unknown
	New  string `json:"new"`
}

// notComparable returns the reasons why two runs cannot be compared.
func notComparable(base, next string, obstacles []Distinction) error {
	var lines strings.Builder
	for _, o := range obstacles {
		lines.WriteString("\n  " + o.String())
	}
	return hint.New("run both under the same conditions, or use --anyway: the difference is then that of everything listed",
		"compare %s with %s: they were not run under the same conditions%s", base, next, lines.String())
}

func (d Distinction) String() string {
	return fmt.Sprintf("%s: %s in the base run, %s in the new one", d.What, cmp.Or(d.Base, "unknown"), cmp.Or(d.New, "unknown"))
}

// fact is something of an environment that two runs can differ in.
type fact struct {
	what string
	of   func(result.Environment) string
}

// machineFacts must agree: a trial on another machine is not a replicate.
var machineFacts = []fact{
	{"platform", func(e result.Environment) string { return e.Platform }},
	{"operating system", func(e result.Environment) string { return e.OS }},
	{"architecture", func(e result.Environment) string { return e.Arch }},
	{"kernel", func(e result.Environment) string { return e.Kernel }},
	{"CPU model", func(e result.Environment) string { return e.CPUModel }},
	{"number of CPUs", func(e result.Environment) string { return countText(int64(e.CPUs)) }},
	{"CPU frequency governor", func(e result.Environment) string { return e.Governor }},
}

// freeFacts may differ, and are reported.
var freeFacts = []fact{
	{"tare version", func(e result.Environment) string { return e.Tare }},
	{"memory of the machine, MB", func(e result.Environment) string { return countText(e.MemoryMB) }},
}

func countText(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// Conditions are the name, environment and experiment of a recorded or planned run.
type Conditions struct {
	Name        string // of the run, for errors
	Environment result.Environment
	Experiment  []byte // rendered
}

// Obstacles are the reasons not to compare trials under these conditions with those under other.
func (c Conditions) Obstacles(other Conditions) ([]Distinction, error) {
	obstacles, _, err := c.distinguish(other)
	return obstacles, err
}

// ConditionsOf returns the conditions of a recorded run.
func ConditionsOf(d *result.Dir) Conditions {
	return Conditions{d.Path(), d.Environment(), d.Experiment()}
}

// distinguish lists the obstacles to a comparison, and the other differences.
func (c Conditions) distinguish(next Conditions) (obstacles, free []Distinction, err error) {
	a, b := c.Environment, next.Environment
	obstacles, free = differing(machineFacts, a, b), differing(freeFacts, a, b)
	// A mesh with a changed definition under the same name is a different mesh.
	for _, name := range slices.Sorted(maps.Keys(a.Meshes)) {
		if was, is := a.Meshes[name], b.Meshes[name]; is != "" && was != is {
			obstacles = append(obstacles, Distinction{"definition of mesh " + name, short12(was), short12(is)})
		}
	}
	free = append(free, mapDistinctions("version of ", a.Versions, b.Versions)...)
	x, err := c.flat()
	if err != nil {
		return nil, nil, err
	}
	y, err := next.flat()
	if err != nil {
		return nil, nil, err
	}
	delete(x, "platform.kind") // the environment has it
	delete(y, "platform.kind")
	for _, d := range mapDistinctions("", x, y) {
		top, _, _ := strings.Cut(d.What, ".")
		switch experimentFields[top] {
		case mayDiffer:
			free = append(free, d)
		case mustAgree:
			obstacles = append(obstacles, d)
		}
	}
	return obstacles, free, nil
}

func differing(facts []fact, a, b result.Environment) []Distinction {
	var out []Distinction
	for _, f := range facts {
		if x, y := f.of(a), f.of(b); x != y {
			out = append(out, Distinction{f.what, x, y})
		}
	}
	return out
}

func short12(digest string) string { return digest[:min(12, len(digest))] }

// mapDistinctions returns the keys with different values, in order. Absent counts as unknown.
func mapDistinctions(prefix string, a, b map[string]string) []Distinction {
	either := map[string]string{}
	maps.Copy(either, a)
	maps.Copy(either, b)
	var out []Distinction
	for _, k := range slices.Sorted(maps.Keys(either)) {
		if a[k] != b[k] {
			out = append(out, Distinction{prefix + k, a[k], b[k]})
		}
	}
	return out
}

// role is the meaning of a difference in a field of the experiment file. A field
// outside the table must agree, so that fields added later are safe by default.
type role int

const (
	mustAgree role = iota
	mayDiffer
	ignored
)

var experimentFields = map[string]role{
	"metadata": ignored, "confidence": ignored, "baseline": ignored, "control": ignored, "reference": ignored, "equivalence": ignored,
	"factors": ignored,   // treatments are matched one by one
	"import":  mayDiffer, // how many files there were
	"blocks":  mayDiffer, "seed": mayDiffer, "validity": mayDiffer,
}

// flat is the experiment file as path and value, e.g. "load.timeout" and "10s".
func (c Conditions) flat() (map[string]string, error) {
	var v any
	if err := yaml.Unmarshal(c.Experiment, &v); err != nil {
		return nil, fmt.Errorf("compare: read %s of %s: %w", result.ExperimentFile, c.Name, err)
	}
	flat := map[string]string{}
	flatten(flat, "", v)
	if o := flat["order"]; o == experiment.OrderRandom || o == experiment.OrderBalanced {
		delete(flat, "order") // both are random within blocks
	}
	return flat, nil
}

func flatten(into map[string]string, path string, v any) {
	join := func(key string) string {
		if path == "" {
			return key
		}
		return path + "." + key
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			flatten(into, join(k), x)
		}
	case []any:
		for i, x := range v {
			flatten(into, path+"["+strconv.Itoa(i)+"]", x)
		}
	case nil:
	default:
		into[path] = fmt.Sprint(v)
	}
}

// loadObstacles compares the recorded load of the trials. Imports have it, but an experiment file may lack it.
func loadObstacles(known []Distinction, a, b Setup) []Distinction {
	seconds := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'f', -1, 64) + "s"
	}
	var out []Distinction
	for _, f := range []struct {
		path string
		of   func(Setup) string
	}{
		{"load.generator", func(s Setup) string { return s.Generator }},
		{"load.loop", func(s Setup) string { return s.Loop }},
		{"load.arrivals", func(s Setup) string { return s.Arrivals }},
		{"phases.warmup", func(s Setup) string { return seconds(s.WarmupS) }},
		{"phases.measure", func(s Setup) string { return seconds(s.MeasureS) }},
	} {
		x, y := f.of(a), f.of(b)
		if x == y || slices.ContainsFunc(known, func(d Distinction) bool { return d.What == f.path }) {
			continue
		}
		out = append(out, Distinction{f.path, x, y})
	}
	return out
}
