package debate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/metric"
)

// crossCheck compares the runs with their names and with one another: the
// content of a file in the wrong place does not show the mistake.
func crossCheck(s *importer.Study) {
	checkMeshes(s)
	s.CheckRates()
	checkSiblings(s)
	s.CheckOverlap()
}

// marks relate the mesh in a directory's name to its tasks in the metrics.
var marks = []struct {
	claim  string // part of the directory's name, in the order of the debate's script
	marker string
	is     func(mesh.Task) bool
}{
	{"ambient", "ztunnel", func(t mesh.Task) bool { return t.Role == "node-proxy" }},
	{"linkerd", "Linkerd's control plane", func(t mesh.Task) bool { return strings.HasPrefix(t.Pod, "linkerd-") }},
	{"istio", "istiod without ztunnel", func(t mesh.Task) bool { return t.Pod == "istiod" }},
}

// checkMeshes detects tasks of a mesh that is not the directory's.
func checkMeshes(s *importer.Study) {
	for i := range s.Trials {
		t := &s.Trials[i]
		if t.Record.Sampled == nil {
			continue
		}
		claimed, shown := -1, -1
		for k, m := range marks {
			if claimed < 0 && strings.Contains(t.Mesh, m.claim) {
				claimed = k
			}
			if shown < 0 && slices.ContainsFunc(t.Record.Sampled.Tasks, m.is) {
				shown = k
			}
		}
		unmeshed := slices.ContainsFunc([]string{"unmeshed", "no-mesh", "none"}, func(n string) bool { return t.Mesh == n })
		switch {
		case shown < 0 && isExported(t.Files): // no component of any mesh
		case claimed >= 0 && shown != claimed && !slices.ContainsFunc(t.Record.Sampled.Tasks, marks[claimed].is):
			found := "no mesh that is known"
			if shown >= 0 {
				found = marks[shown].marker
			}
			t.Invalidate("other-mesh", fmt.Sprintf("%s is in a directory for %s, and its metrics show %s: were two meshes swapped?", t.Files[0], t.Mesh, found),
				"move the files to where they belong, or rename the directory")
		case claimed >= 0 && shown >= 0 && shown < claimed && marks[claimed].claim == "istio":
			t.Invalidate("other-mesh", fmt.Sprintf("%s is in a directory for %s, and its metrics show %s: were two meshes swapped?", t.Files[0], t.Mesh, marks[shown].marker),
				"move the files to where they belong, or rename the directory")
		case unmeshed && shown >= 0:
			t.Invalidate("other-mesh", fmt.Sprintf("%s is in a directory for no mesh, and its metrics show %s", t.Files[0], marks[shown].marker),
				"move the files to where they belong, or rename the directory")
		}
	}
}

// checkSiblings compares the application's CPU with its CPU beside the same mesh at the
// same rate. A CSV does not contain its rate, but its figures show it.
func checkSiblings(s *importer.Study) {
	type key struct {
		mesh string
		rate float64
	}
	byRate := map[key][]float64{}
	used := make([]float64, len(s.Trials))
	for i := range s.Trials {
		t := &s.Trials[i]
		used[i] = applicationCores(t)
		if used[i] > 0 && t.Record.Valid {
			k := key{t.Mesh, float64(t.Rate)}
			byRate[k] = append(byRate[k], used[i])
		}
	}
	for i := range s.Trials {
		t := &s.Trials[i]
		own := key{t.Mesh, float64(t.Rate)}
		if !t.Record.Valid || used[i] <= 0 || len(byRate[own]) < 3 {
			continue
		}
		off := math.Abs(math.Log(used[i] / median(byRate[own])))
		if off < math.Log(1.4) {
			continue
		}
		for _, k := range slices.SortedFunc(maps.Keys(byRate), func(a, b key) int { return cmp.Compare(a.rate, b.rate) }) {
			if k.mesh != t.Mesh || k.rate == own.rate || math.Abs(math.Log(used[i]/median(byRate[k]))) > off/3 {
				continue
			}
			t.Invalidate("other-rate", fmt.Sprintf("%s: the application used %.3g cores, and %.3g in the other runs at %g requests/s: it looks like a run at %g",
				t.Files[0], used[i], median(byRate[own]), own.rate, k.rate), "move the files to where they belong, or leave this run out")
			break
		}
	}
}

// applicationCores returns the application's mean CPU over the measure phase, or
// 0 if unknown.
func applicationCores(t *importer.Trial) float64 {
	s := t.Record.Sampled
	if s == nil || len(t.Record.Phases) < 2 {
		return 0
	}
	phase := t.Record.Phases[1]
	total, n := 0.0, 0
	for _, r := range s.Expanded() {
		if r.At.Before(phase.Start) || r.At.After(phase.End) {
			continue
		}
		n++
		for k, task := range s.Tasks {
			if task.Plane == metric.App && r.Cores[k] != nil {
				total += *r.Cores[k]
			}
		}
	}
	return total / max(1, float64(n))
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
