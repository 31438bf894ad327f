package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/predict"
)

// Needs are the answer of tare size about the sidecars of a namespace.
type Needs struct {
	Schema  string `json:"schema"` // tare.needs/v1
	Cluster string `json:"cluster"`
	// Namespace and RunningMesh are where the sidecars run, and the mesh that they are of.
	Namespace   string `json:"namespace"`
	RunningMesh string `json:"running_mesh"`
	// Rates are where the rates come from.
	Rates string `json:"rates"`
	predict.Needs
	Month *MonthChange `json:"month,omitempty"` // of all that are sized, if prices are known
	each  []float64    // change of the month of each workload
}

// MonthChange is the price of a month of 730 hours of what sidecars request, now and then.
type MonthChange struct {
	Currency string  `json:"currency"`
	Now      float64 `json:"now"`
	Then     float64 `json:"then"`
}

// NewNeeds returns the needs of running sidecars, with money if prices are not nil.
func NewNeeds(running predict.Sidecars, rates string, all predict.Needs, prices *answer.Prices) Needs {
	n := Needs{Schema: "tare.needs/v1", Cluster: running.Cluster, Namespace: running.Namespace, RunningMesh: running.Mesh, Rates: rates, Needs: all}
	if prices == nil {
		return n
	}
	n.Month = &MonthChange{Currency: prices.Currency}
	for _, w := range all.Workloads {
		now, then := 0.0, 0.0
		if w.Refused == "" {
			now, then = float64(w.Pods)*prices.MonthOf(w.Sidecar.CPU, w.Sidecar.Memory), float64(w.Pods)*prices.MonthOf(w.RequestCPU, w.RequestMemory)
		}
		n.Month.Now, n.Month.Then, n.each = n.Month.Now+now, n.Month.Then+then, append(n.each, then-now)
	}
	return n
}

// NeedsForms lists every form of needs, the default first.
func NeedsForms() []Form[Needs] {
	return Safe(
		Form[Needs]{"text", "requests of each workload's sidecars, now and as needed", writeNeeds},
		Form[Needs]{"json", "everything, schema tare.needs/v1", writeJSON[Needs]},
		Form[Needs]{"patch", "annotations of each workload, for kubectl apply", writePatch},
	)
}

func writeNeeds(w io.Writer, n Needs) error {
	writeFacts(w, fmt.Sprintf("Sidecars of %s in namespace %s, with %s headroom:", n.RunningMesh, n.Namespace, experiment.Share(n.Headroom)), needFacts(n))
	t := LevelTable{Heads: []string{"workload", "pods", "requests/s", "CPU request", "needed (range)", "memory request", "needed (range)"}}
	if n.Month != nil {
		t.Heads = append(t.Heads, "a month")
	}
	for i, x := range n.Workloads {
		row := []string{x.Title(), fmt.Sprint(x.Pods), fmt.Sprintf("%.4g in, %.4g out", x.Received, x.Sent)}
		if x.Refused != "" {
			t.Rows = append(t.Rows, append(row, requestedCPU(x.Sidecar.CPU), "not sized", requestedMemory(x.Sidecar.Memory), "not sized"))
			continue
		}
		memory := fmt.Sprintf("%.0f (%.0f to %.0f) MiB", x.Memory.Estimate, x.Memory.Low, x.Memory.High)
		if x.AsUsed {
			memory = fmt.Sprintf("%.0f MiB, as used", x.Used.Memory)
		}
		row = append(row, requestedCPU(x.Sidecar.CPU)+" → "+cpuQuantity(x.RequestCPU), fmt.Sprintf("%s (%s to %s)", cpuQuantity(x.CPU.Estimate), cpuQuantity(x.CPU.Low), cpuQuantity(x.CPU.High)),
			requestedMemory(x.Sidecar.Memory)+" → "+memoryQuantity(x.RequestMemory), memory)
		if n.Month != nil {
			row = append(row, fmt.Sprintf("%+.2f %s", n.each[i], n.Month.Currency))
		}
		t.Rows = append(t.Rows, row)
	}
	writeServices(w, t)
	fmt.Fprintln(w, "\nApply the requests with --format patch, piped to:\n  kubectl apply --server-side --field-manager tare-size -f -")
	return nil
}

// needFacts are the facts about all sidecars.
func needFacts(n Needs) (facts []Fact) {
	row := func(name, format string, args ...any) {
		facts = append(facts, Fact{name, fmt.Sprintf(format, args...)})
	}
	var now, then, app predict.Amounts
	pods := 0
	for _, w := range n.Workloads {
		if w.Refused != "" {
			continue
		}
		replicas := float64(w.Pods)
		now.CPU, now.Memory = now.CPU+replicas*w.Sidecar.CPU, now.Memory+replicas*w.Sidecar.Memory
		then.CPU, then.Memory = then.CPU+replicas*w.RequestCPU, then.Memory+replicas*w.RequestMemory
		app.CPU, app.Memory = app.CPU+replicas*w.Application.CPU, app.Memory+replicas*w.Application.Memory
		pods += w.Pods
	}
	row("requests", "%.4g cores and %.0f MiB → %.4g cores and %.0f MiB, of %d sidecars", now.CPU, now.Memory, then.CPU, then.Memory, pods)
	row("their applications", "request %.4g cores and %.0f MiB", app.CPU, app.Memory)
	if m := n.Month; m != nil {
		row("a month", "%.2f %s → %.2f %s, as requested", m.Now, m.Currency, m.Then, m.Currency)
	}
	row("needed", "%s and %s, without headroom", cpuAmount(n.CPU), memoryAmount(n.Memory))
	row("in brackets", "the range of a new deployment: %s of 20 lie in it", nineteen(n.Confidence))
	row("cluster", "%s", n.Cluster)
	row("requests/s", "%s", n.Rates)
	from := fmt.Sprintf("%s, measured %d times (blocks), with its sizes of messages", strings.Join(n.From, ", "), n.Blocks)
	if n.Mesh != n.RunningMesh {
		from += fmt.Sprintf("; its sidecars are of %s, not of %s", n.Mesh, n.RunningMesh)
	}
	low, high := math.Inf(1), 0.0
	var unscaled []string
	for _, w := range n.Workloads {
		if w.Scaled > 0 {
			low, high = min(low, w.Scaled), max(high, w.Scaled)
		} else if w.Refused == "" {
			unscaled = append(unscaled, w.Title())
		}
	}
	if high > 0 {
		from += fmt.Sprintf(". CPU is scaled to present use by the Metrics API, %.2g to %.2g times the run's", low, high)
	}
	row("costs", "%s", from)
	if unscaled != nil {
		row("not scaled", "%s: the CPU is the run's, because the Metrics API has none of a pod after its first minute", printable.Listed(unscaled, mostUnscaled))
	}
	for _, w := range n.Workloads {
		switch mean := (w.Received + w.Sent) / float64(max(1, w.Pods)); {
		case w.Refused != "":
			row("not sized", "%s", w.Refused)
		case w.AtLimit():
			row("throttled", "a sidecar of %s uses %s of its CPU limit of %s, so it needs at least this size: remove the limit, and size it again", w.Title(), cpuQuantity(w.Used.CPU), cpuQuantity(w.LimitCPU))
		case w.Busiest > unevenPods*mean:
			row("uneven", "the busiest pod of %s has %.4g requests/s, and a mean one %.4g, of which the need is", w.Title(), w.Busiest, mean)
		}
	}
	if slices.ContainsFunc(n.Workloads, func(w predict.Need) bool { return w.Refused != "" }) && n.Command != "" {
		row("measure them", "%s", n.Command)
	}
	return facts
}

// mostUnscaled are the workloads that are named as not scaled.
const mostUnscaled = 5

// unevenPods is the ratio of the busiest pod to the mean from which it is named.
const unevenPods = 1.5

func requestedCPU(cores float64) string {
	if cores == 0 {
		return none
	}
	return cpuQuantity(cores)
}

func requestedMemory(mib float64) string {
	if mib == 0 {
		return none
	}
	return memoryQuantity(mib)
}

// apps are the kinds of workloads with a template of pods.
var apps = []string{"Deployment", "StatefulSet", "DaemonSet"}

// writePatch writes the annotations of the pods' templates.
func writePatch(w io.Writer, n Needs) error {
	d, err := mesh.Load(n.RunningMesh)
	if err != nil {
		return err
	}
	written := 0
	for _, x := range n.Workloads {
		if x.Refused != "" || d.Kubernetes == nil || !slices.Contains(apps, x.Kind) {
			continue
		}
		annotations := d.Kubernetes.ProxyValues.PodAnnotations(settingsOf(predict.Size{RequestCPU: x.RequestCPU, RequestMemory: x.RequestMemory, LimitMemory: x.LimitMemory, Workers: x.Workers}))
		if len(annotations) == 0 {
			continue
		}
		for name, text := range annotations {
			if annotations[name], err = overlaid(x.Annotations[name], text); err != nil {
				return fmt.Errorf("annotation %s of %s: %w", name, x.Title(), err)
			}
		}
		written++
		document := map[string]any{"apiVersion": "apps/v1", "kind": x.Kind, "metadata": map[string]any{"name": x.Name, "namespace": n.Namespace},
			"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": annotations}}}}
		if err := writeDocument(w, fmt.Sprintf("%s: %.4g requests/s of each pod", x.Title(), (x.Received+x.Sent)/float64(max(1, x.Pods))), document); err != nil {
			return err
		}
	}
	if written == 0 {
		return hint.New("print the requests with --format text", "no workload of namespace %s has a controller that restarts it, and a mesh with annotations for its sidecar", n.Namespace)
	}
	return nil
}

// overlaid is an annotation with settings over those that pods have: a mapping keeps its other keys.
func overlaid(before, text string) (string, error) {
	var old, now map[string]any
	if before == "" || yaml.Unmarshal([]byte(text), &now) != nil {
		return text, nil
	}
	if err := yaml.Unmarshal([]byte(before), &old); err != nil {
		return "", err
	}
	if old == nil {
		return text, nil
	}
	maps.Copy(old, now)
	b, err := yaml.Marshal(old)
	return string(b), err
}
