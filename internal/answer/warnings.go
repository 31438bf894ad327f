package answer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// importWarnings are the unknowns of an import: the noise between equal
// treatments, the application's cost without a mesh, and whether the machine
// changed from one mesh to the next.
func importWarnings(run *compare.Run) []figures.Warning {
	ws := []figures.Warning{}
	if run.Assumed {
		ws = append(ws, figures.Warning{Code: "no-baseline",
			Message: "no treatment is a baseline, such as --mesh none: what each adds is unknown; they are compared with one another, " + compare.LevelText(run.File.Baseline[experiment.MeshFactor]) + " as the baseline",
			Hint:    "choose another with --baseline mesh=NAME"})
	}
	if meshes, changes := sequence(run); meshes > 1 && changes < meshes {
		ws = append(ws, figures.Warning{Code: "not-interleaved",
			Message: fmt.Sprintf("the treatments (%d) were measured one after another: every difference includes other changes over that time, and no interval covers them", meshes),
			Hint:    "interleave them in random order, as tare run does"})
	}
	return append(ws, figures.Warning{Code: "no-floor", Message: "the baseline was not measured twice: the noise is unknown",
		Hint: "import the same treatment twice, under two names, and compare them"})
}

// sequence counts the meshes, and how often one followed another in time.
func sequence(run *compare.Run) (meshes, changes int) {
	seen := map[string]bool{}
	last := ""
	for _, r := range slices.SortedFunc(slices.Values(run.Records), func(x, y result.Record) int { return x.Started.Compare(y.Started) }) {
		m := compare.LevelText(r.Factors[experiment.MeshFactor])
		if r.Started.IsZero() || r.Factors[experiment.MeshFactor] == nil {
			continue
		}
		if last != "" && m != last {
			changes++
		}
		seen[m], last = true, m
	}
	return len(seen), changes
}

// orderWarnings warns of a nonrandom order of trials.
func orderWarnings(run *compare.Run) []figures.Warning {
	switch run.Plan.Order {
	case experiment.OrderOnce:
		return []figures.Warning{{Code: "meshes-once", Metrics: nil,
			Message: "each mesh was installed once and all its trials ran together: every difference between meshes includes changes over time, and no interval covers them",
			Hint:    "order: by-mesh runs every mesh in each block"}}
	case plan.ByMesh:
		return []figures.Warning{{Code: "meshes-in-turns",
			Message: "within a block the trials of a mesh run together: the noise does not include differences between mesh batches",
			Hint:    "order: random runs all trials of a block in random order"}}
	}
	return nil
}

// outsideDiffers names treatments with which processes outside the trial used more or less CPU than with their baseline, unless
// the baseline differs from itself too.
func outsideDiffers(all []compare.Comparison) []figures.Warning {
	var differ []string
	for _, c := range all {
		if c.Metric != metric.OutsideCPU || c.Verdict != compare.Higher && c.Verdict != compare.Lower {
			continue
		}
		if c.Control {
			return nil
		}
		if c.Difference != nil && c.Difference.Known() {
			differ = append(differ, fmt.Sprintf("%s by %+.0f µs a request (%+.0f to %+.0f)", c.Treatment, c.Difference.Estimate, *c.Difference.Low, *c.Difference.High))
		}
	}
	if differ == nil {
		return nil
	}
	return []figures.Warning{{Code: "outside-differs", Metrics: []string{metric.OutsideCPU},
		Message: "CPU of this machine outside the trial differs from the baseline: " + printable.Listed(differ, 4),
		Hint:    "a process that the trial did not start, or the kernel, works for the treatment: the cost lacks it; `tare doctor` lists busy processes"}}
}

// foreign lists the workloads of others that ran beside the trials, with their mean CPU, the largest first.
func foreign(run *compare.Run) []figures.Warning {
	cores, trials := map[string]float64{}, 0
	for _, r := range run.Records {
		beside := false
		for _, t := range r.Tasks {
			if t.Plane != metric.Foreign {
				continue
			}
			beside = true
			if wall := t.End.At.Sub(t.Start.At); t.Missing == "" && wall > 0 {
				workload, _, _ := strings.Cut(strings.TrimPrefix(figures.WorkloadOf(t.Task), t.Namespace+"/"), "/")
				cores[t.Namespace+"/"+workload] += float64(t.End.CPU-t.Start.CPU) / float64(wall)
			}
		}
		if beside {
			trials++
		}
	}
	if trials == 0 {
		return nil
	}
	listed := lists.Map(printable.MostFirst(cores), func(name string) string { return fmt.Sprintf("%s (%.3f cores)", name, cores[name]/float64(trials)) })
	return []figures.Warning{{Code: "foreign-workloads", Trials: trials,
		Message: fmt.Sprintf("%s of others ran on the cluster, in no sum: %s", printable.Counted(len(listed), "workload"), printable.Listed(listed, 10)),
		Hint:    "their CPU beside each treatment is compared with that beside its baseline; --all shows " + figures.ForeignCPU}}
}

// ability is a feature of meshes, in words.
type ability struct {
	words string
	has   func(mesh.Provides) bool
}

var abilities = []ability{
	{"mutual TLS", func(p mesh.Provides) bool { return p.MTLS }},
	{"L7 processing", func(p mesh.Provides) bool { return p.L7 }},
	{"retries", func(p mesh.Provides) bool { return p.Retries }},
	{"telemetry", func(p mesh.Provides) bool { return p.Telemetry }},
}

// unequal names the meshes of the run that do less than another one does: their figures are of less.
func unequal(run *compare.Run) []figures.Warning {
	if run.File.Ladder { // its steps are features
		return nil
	}
	of := maps.Clone(run.Environment.Provides)
	maps.DeleteFunc(of, func(_ string, p mesh.Provides) bool { return p == mesh.Provides{} }) // no mesh
	if slices.ContainsFunc(run.Plan.Treatments, func(t plan.Treatment) bool { return t.Reference }) {
		delete(of, experiment.ReferenceMesh) // it is not compared
	}
	abilities := slices.DeleteFunc(slices.Clone(abilities), func(a ability) bool { return !slices.ContainsFunc(slices.Collect(maps.Values(of)), a.has) })
	var order []string // of the missing features
	meshes := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		missing := slices.DeleteFunc(slices.Clone(abilities), func(a ability) bool { return a.has(of[name]) })
		if words := strings.Join(lists.Map(missing, func(a ability) string { return a.words }), ", "); words != "" {
			if meshes[words] == nil {
				order = append(order, words)
			}
			meshes[words] = append(meshes[words], name)
		}
	}
	if order == nil {
		return nil
	}
	list := lists.Map(order, func(words string) string {
		return printable.And(meshes[words]) + map[bool]string{true: " lacks ", false: " lack "}[len(meshes[words]) == 1] + words
	})
	return []figures.Warning{{Code: "unequal-meshes", Message: "the meshes have different features: " + strings.Join(list, "; "),
		Hint: "compare meshes with the same features, or mention the missing ones"}}
}
