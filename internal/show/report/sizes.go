package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// Sizes are the answer of tare size.
type Sizes struct {
	Schema string         `json:"schema"` // tare.size/v1
	From   string         `json:"from"`   // the results directory
	For    predict.Sizing `json:"for"`
	Sizes  []Sized        `json:"sizes"`
	Next   []NextRun      `json:"next,omitempty"` // what would make the sizes more certain
}

// Sized is a size, as a chart and a bill have it.
type Sized struct {
	predict.Size
	// ChartValues are the values of the mesh's chart that request it, nil if its chart has no place for them.
	ChartValues map[string]any `json:"chart_values,omitempty"`
	// Annotations of a pod give its own sidecar the size, nil if the mesh has none.
	Annotations map[string]string `json:"annotations,omitempty"`
	Month       *Month            `json:"month,omitempty"` // price, if prices are known
}

// Month is the price of a proxy for a month of 730 hours, of all replicas if it has some, of all nodes if it has one on each.
type Month struct {
	Currency  string  `json:"currency"`
	Requested float64 `json:"requested"`           // of its requests, for which nodes are bought
	Used      float64 `json:"used"`                // of its use, without headroom
	CPUAlone  bool    `json:"cpu_alone,omitempty"` // memory has no price
}

// NextRun is a run that would make sizes or forecasts more certain.
type NextRun struct {
	predict.Step
	Command string `json:"command"`
}

// NewSizes returns sizes with the values of charts, and with money if prices are not nil.
func NewSizes(from string, s predict.Sizing, all []predict.Size, next []predict.Step, prices *answer.Prices) Sizes {
	sizes := Sizes{Schema: "tare.size/v1", From: from, For: s}
	for _, size := range all {
		x := Sized{Size: size}
		if d, err := mesh.Load(size.Mesh); err == nil && d.Kubernetes != nil && strings.HasPrefix(size.Proxy, mesh.RoleSidecar) {
			x.ChartValues = chartValues(d.Kubernetes.ProxyValues, size)
			x.Annotations = d.Kubernetes.ProxyValues.PodAnnotations(settingsOf(size))
		}
		if prices != nil {
			x.Month = monthOf(size, prices)
		}
		sizes.Sizes = append(sizes.Sizes, x)
	}
	sizes.Next = nextRuns(from, next)
	return sizes
}

// chartValues are the values that request a size, nil if a chart has no place for them. Without a CPU limit they have null: with it
// Helm removes the chart's own limit, which Istio has.
func chartValues(v mesh.ProxyValues, size predict.Size) map[string]any {
	values, path := v.Values(settingsOf(size)), v.Paths["limits.cpu"]
	if len(values) == 0 {
		return nil
	}
	if path == "" || size.LimitCPU > 0 {
		return values
	}
	at, keys := values, strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		nested, _ := at[key].(map[string]any)
		if nested == nil {
			nested = map[string]any{}
			at[key] = nested
		}
		at = nested
	}
	at[keys[len(keys)-1]] = nil
	return values
}

// nextRuns adds the commands to steps. Those without a results directory of their own are of from.
func nextRuns(from string, steps []predict.Step) (all []NextRun) {
	return lists.Map(steps, func(step predict.Step) NextRun { return NextRun{step, RunCommand(cmp.Or(step.Dir, from), step.Set)} })
}

// RunCommand repeats the run of a results directory with changes of its experiment.
func RunCommand(dir string, changes []string) string {
	command := "tare run " + printable.ShellWord(filepath.Join(dir, result.ExperimentFile))
	for _, set := range changes {
		command += " --set " + printable.ShellWord(set)
	}
	return command
}

// writeNext writes the runs that would make an answer more certain.
func writeNext(w io.Writer, next []NextRun) {
	for i, n := range next {
		if i == 0 {
			fmt.Fprintln(w, "\nTo be more certain:")
		}
		fmt.Fprintf(w, "  %s\n    %s\n", n.Words(), n.Command)
	}
}

func monthOf(size predict.Size, prices *answer.Prices) *Month {
	n, cpu, memory := 1.0, size.CPU.Estimate, size.Memory.Estimate
	if r := size.Replicas; r != nil {
		n = float64(r.N)
	}
	if nodes := size.Nodes; nodes != nil {
		n, cpu, memory = float64(nodes.N), nodes.CPU.Estimate, nodes.Memory.Estimate
	}
	return &Month{prices.Currency, n * prices.MonthOf(size.RequestCPU, size.RequestMemory), n * prices.MonthOf(cpu, memory), prices.GiB == nil}
}

func settingsOf(size predict.Size) mesh.ProxySettings {
	p := mesh.ProxySettings{Concurrency: size.Workers, Requests: map[string]string{"cpu": cpuQuantity(size.RequestCPU), "memory": memoryQuantity(size.RequestMemory)},
		Limits: map[string]string{"memory": memoryQuantity(size.LimitMemory)}}
	if size.LimitCPU > 0 {
		p.Limits["cpu"] = cpuQuantity(size.LimitCPU)
	}
	return p
}

// SizesForms lists every form of sizes, the default first.
func SizesForms() []Form[Sizes] {
	return Safe(
		Form[Sizes]{"text", "requests and limits of each proxy", writeSizes},
		Form[Sizes]{"json", "everything, with the curve", func(w io.Writer, s Sizes) error {
			return WriteAnswered(w, briefOfClaim(sizedClaim(s, s.Sizes[0]), 0), s)
		}},
		Form[Sizes]{"yaml", "resources of a container", writeResources},
		Form[Sizes]{"values", "values of the mesh's chart, for all sidecars", writeChartValues},
		Form[Sizes]{"annotations", "annotations of a pod, for its own sidecar", writeAnnotations},
	)
}

func writeSizes(w io.Writer, s Sizes) error {
	for i, size := range s.Sizes {
		if i > 0 {
			fmt.Fprintln(w)
		}
		writeFacts(w, sizedClaim(s, size).Sentence, SizeFacts(s, size))
	}
	writeNext(w, s.Next)
	return nil
}

// sizedClaim is what to write down for a proxy: its requests and limits.
func sizedClaim(s Sizes, size Sized) Claim {
	words := sentenceWords{"about": SizedFor(s, size), "cpu": cpuQuantity(size.RequestCPU), "memory": memoryQuantity(size.RequestMemory), "limits": "memory " + memoryQuantity(size.LimitMemory)}
	if size.LimitCPU > 0 {
		words["limits"] = "cpu " + cpuQuantity(size.LimitCPU) + ", " + words["limits"]
	}
	if r := size.Replicas; r != nil {
		words["replicas"] = ", for each of " + printable.Counted(r.N, "replica")
	}
	if m := size.Month; m != nil {
		words["month"] = fmt.Sprintf(", %.2f %s a month%s", m.Requested, m.Currency, cpuAlone(m.CPUAlone))
	}
	cpu := &stats.Interval{Estimate: size.CPU.Estimate, Low: &size.CPU.NewLow, High: &size.CPU.NewHigh}
	return Claim{Form: sizeClaim, Subject: SizedName(s, size), Metric: "cpu", Relation: answer.Predicted, Amount: cpu, Unit: "cores"}.fill(words)
}

// cpuAlone marks money of a month without memory, which has no price.
func cpuAlone(is bool) string { return map[bool]string{true: " (memory has no price)"}[is] }

// writeFacts writes a line, and the facts below it.
func writeFacts(w io.Writer, line string, facts []Fact) {
	fmt.Fprintln(w, line)
	wide := lists.Most(facts, func(f Fact) int { return len(f.Name) })
	for _, f := range facts {
		fmt.Fprintf(w, "  %-*s %s\n", wide+1, f.Name+":", f.Text)
	}
}

// Words are the run and its time, if known.
func (n NextRun) Words() string {
	if n.Takes == 0 {
		return n.What
	}
	return fmt.Sprintf("%s (%v)", n.What, experiment.Duration(n.Takes.Round(time.Second)))
}

// Fact is a row of a size: its name and its text.
type Fact struct{ Name, Text string }

// SizeFacts are the rows of a size, what to write down first.
func SizeFacts(s Sizes, size Sized) (facts []Fact) {
	row := func(name, format string, args ...any) {
		facts = append(facts, Fact{name, fmt.Sprintf(format, args...)})
	}
	more := 1 + s.For.Headroom
	if r := size.Replicas; r != nil {
		fewer := ""
		if r.Range {
			fewer = fmt.Sprintf("; %s of one is the highest measured rate: a higher one may allow fewer", Level(size.Curve.Axes[0].To))
		}
		row("replicas", "%d of cpu %s, %.0f requests/s each; together they use %.3g cores (%.3g to %.3g)%s", r.N, cpuQuantity(size.RequestCPU), r.Rate, r.Cores.Estimate, r.Cores.Low, r.Cores.High, fewer)
	}
	if n := size.Nodes; n != nil {
		row("nodes", "%d; the hottest has %s, %.2g times the mean, and decides the size of all", n.N, printable.Counted(n.Hottest, "pod"), n.Ratio)
	}
	switch {
	case size.Replicas != nil:
		row("requests", "cpu %s, memory %s, of each replica", cpuQuantity(size.RequestCPU), spaced(memoryQuantity(size.RequestMemory), memoryMark(size.Growing)))
	default:
		row("requests", "cpu %s (a new deployment may need %s to %s), memory %s", cpuQuantity(size.RequestCPU), cpuQuantity(size.CPU.NewLow*more), cpuQuantity(size.CPU.NewHigh*more), spaced(memoryQuantity(size.RequestMemory), memoryMark(size.Growing)))
	}
	row("limits", "%s", limitsWords(s, size))
	if g := size.Growing; g != nil {
		row("growing", "%s", growingWords(*g))
	}
	if size.Proxy != predict.ControlPlane {
		row("workers", "%s (concurrency)", printable.Counted(size.Workers, "thread"))
	}
	for _, l := range size.Limited {
		row("tried", "%s", limitedWords(s, l))
	}
	if m := size.Month; m != nil {
		row("a month", "%.2f %s as requested, %.2f %s as used", m.Requested, m.Currency, m.Used, m.Currency)
	}
	row("used", "cpu %s (%s to %s) and memory %s without headroom, peak %s",
		cores(size.CPU.Estimate), cores(size.CPU.Low), cores(size.CPU.High),
		spaced(fmt.Sprintf("%.0f MiB", size.Memory.Estimate), memoryMark(size.Growing)), spaced(fmt.Sprintf("%.0f MiB", size.Peak), memoryMark(size.Growing)))
	c := size.Curve
	at := strings.Join(append([]string{cmp.Or(axesWords(c.Axes), "all rates")}, s.label().constant...), ", ")
	row("measured", "%d times (blocks), at %s; the CPU is %s", c.Blocks, at, c.Reason)
	return facts
}

// growingWords are the growth of memory at the end, and the way to its end.
func growingWords(g predict.Growing) string {
	at := ""
	if g.Rate > 0 {
		at = fmt.Sprintf(" at %s requests/s", Level(g.Rate))
	}
	return fmt.Sprintf("memory was still growing at the end, by %s to %s MiB a minute%s: longer trials need more; run longer, with phases.soak, or search for a leak", rough(*g.PerMinute.Low), rough(*g.PerMinute.High), at)
}

// memoryMark is the mark of a figure of memory that was still growing at the end, "" for nil.
func memoryMark(g *predict.Growing) string {
	if g == nil {
		return ""
	}
	return growthMark(&g.PerMinute)
}

// limitsWords are the limits, and why there is a limit of CPU or none.
func limitsWords(s Sizes, size Sized) string {
	memory := "memory " + spaced(memoryQuantity(size.LimitMemory), memoryMark(size.Growing))
	free, measured := predict.Met(""), false
	for _, l := range size.Limited {
		if l.CPU == 0 && l.Memory == 0 {
			free = l.Met
		}
		measured = measured || l.CPU > 0
	}
	o := s.For.Objective
	switch {
	case size.LimitCPU > 0:
		return fmt.Sprintf("cpu %s, %s; the lowest measured CPU limit above the request that keeps %s", cpuQuantity(size.LimitCPU), memory, o.Text)
	case o != nil && free == predict.Missed:
		return fmt.Sprintf("%s; no CPU limit: %s is missed without one too", memory, o.Text)
	case o != nil && measured:
		return fmt.Sprintf("%s; no CPU limit, because no measured one above the request is shown to keep %s", memory, o.Text)
	}
	if size.Proxy == predict.ControlPlane {
		return memory + "; no CPU limit, because a throttled control plane delays changes"
	}
	return memory + "; no CPU limit, because throttled proxies delay requests"
}

// limitedWords describe the effects of limits on a proxy.
func limitedWords(s Sizes, l predict.Limited) string {
	var limits, found []string
	if l.CPU > 0 {
		limits = append(limits, "cpu "+cpuQuantity(l.CPU))
	}
	if l.Memory > 0 {
		limits = append(limits, "memory "+memoryQuantity(l.Memory))
	}
	if limits == nil {
		limits = []string{"no limit"}
	}
	if l.OOMKilled > 0 {
		found = append(found, fmt.Sprintf("OOMKilled in %d of %d trials", l.OOMKilled, l.Trials))
	}
	switch {
	case l.Periods > 0 && l.Reached == 0:
		found = append(found, fmt.Sprintf("throttled in none of %d periods", l.Periods))
	case l.Periods > 0:
		found = append(found, fmt.Sprintf("throttled in %d of %d periods", l.Reached, l.Periods))
	}
	o := s.For.Objective
	switch p := l.P99; {
	case p == nil:
	case *p.Low > 0 || *p.High < 0:
		found = append(found, fmt.Sprintf("p99 grows by %.3g ms (%.3g to %.3g)", p.Estimate, *p.Low, *p.High))
	case o == nil:
		found = append(found, fmt.Sprintf("no growth of the p99 is shown (%.3g to %+.3g ms)", *p.Low, *p.High))
	}
	if o != nil && l.Time != nil {
		verdict := map[predict.Met]string{predict.Holds: "holds", predict.Missed: "is missed", predict.Undecided: "is undecided"}[l.Met]
		found = append(found, fmt.Sprintf("%s is %.3g ms (%.3g to %.3g): %s %s", o.Percentile, l.Time.Estimate, max(0, *l.Time.Low), *l.Time.High, o.Text, verdict))
	}
	if found == nil {
		found = []string{"no trial was valid"}
	}
	return fmt.Sprintf("%s, at %s requests/s: %s", strings.Join(limits, ", "), Level(l.At[experiment.RateFactor]), strings.Join(found, "; "))
}

// SizedFor names the proxy of a size, and the load.
func SizedFor(s Sizes, size Sized) string {
	text := SizedName(s, size)
	switch {
	case size.Proxy == predict.ControlPlane:
		text += fmt.Sprintf(", for %.3g proxies without changes", size.Proxies)
	case size.Replicas != nil:
		text += fmt.Sprintf(", at %s requests/s in total", Level(s.For.TotalRate))
	case size.Nodes != nil:
		text += fmt.Sprintf(", at %s requests/s of a mean node", Level(s.For.Rate))
	default:
		text += fmt.Sprintf(", at %s requests/s", Level(s.For.Rate))
	}
	for _, axis := range slices.Sorted(maps.Keys(s.For.At)) {
		text += fmt.Sprintf(", %s %s", axis, LevelWords(axis, s.For.At[axis]))
	}
	return fmt.Sprintf("%s, with %s headroom", text, experiment.Share(s.For.Headroom))
}

// axesWords are the measured ranges.
func axesWords(axes []predict.Axis) string {
	var words []string
	for _, a := range axes {
		switch {
		case a.Name == experiment.RateFactor:
			words = append(words, fmt.Sprintf("%d rates, %s to %s requests/s", a.Levels, Level(a.From), Level(a.To)))
		case a.Levels > 1:
			words = append(words, fmt.Sprintf("%s %s to %s", a.Name, LevelWords(a.Name, a.From), LevelWords(a.Name, a.To)))
		}
	}
	return strings.Join(words, ", ")
}

// SizedName is the mesh of a size and its proxy, with the factors in which sizes differ.
func SizedName(s Sizes, size Sized) string {
	return s.label().describe(size.Factors) + ", " + size.Proxy
}

func (s Sizes) label() labels {
	return labelsOf(nil, lists.Map(s.Sizes, func(size Sized) plan.Factors { return size.Factors }))
}

// writeResources writes the resources of containers, as Kubernetes has them.
func writeResources(w io.Writer, s Sizes) error {
	for _, size := range s.Sizes {
		p := settingsOf(size.Size)
		document := map[string]any{"resources": map[string]any{"requests": p.Requests, "limits": p.Limits}}
		if size.Replicas != nil {
			document["replicas"] = size.Replicas.N
		}
		if err := writeDocument(w, SizedFor(s, size), document); err != nil {
			return err
		}
	}
	return nil
}

// writeChartValues writes the values of the meshes' charts.
func writeChartValues(w io.Writer, s Sizes) error {
	return writeDocuments(w, s, "chart", func(size Sized) (string, any) {
		if size.ChartValues == nil {
			return "", nil
		}
		return size.Mesh + "'s chart: ", size.ChartValues
	})
}

// writeAnnotations writes the annotations of pods, in the template of a workload.
func writeAnnotations(w io.Writer, s Sizes) error {
	return writeDocuments(w, s, "mesh with such annotations", func(size Sized) (string, any) {
		if len(size.Annotations) == 0 {
			return "", nil
		}
		return "", map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": size.Annotations}}}}
	})
}

// writeDocuments writes the documents of sizes that have one, with its title.
func writeDocuments(w io.Writer, s Sizes, from string, of func(Sized) (title string, document any)) error {
	none := true
	for _, size := range s.Sizes {
		title, document := of(size)
		if document == nil {
			continue
		}
		none = false
		if err := writeDocument(w, title+SizedFor(s, size), document); err != nil {
			return err
		}
	}
	if none {
		return hint.New("--format yaml prints the resources of a container; for this format measure a mesh such as istio on a cluster (platform.kind: kubernetes)", "no proxy of the run comes from a %s: %s has none", from, printable.And(meshesOf(s)))
	}
	return nil
}

func meshesOf(s Sizes) []string {
	names := lists.Map(s.Sizes, func(size Sized) string { return size.Mesh })
	slices.Sort(names)
	return slices.Compact(names)
}

func writeDocument(w io.Writer, comment string, document any) error {
	text, err := yaml.Marshal(document)
	if err != nil {
		return fmt.Errorf("write sizes: %w", err)
	}
	_, err = fmt.Fprintf(w, "---\n# %s\n%s", comment, text)
	return err
}

// cpuQuantity and memoryQuantity are quantities as Kubernetes writes them.
func cpuQuantity(cores float64) string { return fmt.Sprintf("%.0fm", math.Max(1, cores*1000)) }

func memoryQuantity(mib float64) string { return fmt.Sprintf("%.0fMi", mib) }

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
	t := TextTable{Heads: []string{"workload", "pods", "requests/s", "CPU request", "needed (range)", "memory request", "needed (range)"}}
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
	row("cluster", "%s", strings.TrimPrefix(n.Cluster, "cluster "))
	row("requests/s", "%s", n.Rates)
	from := fmt.Sprintf("%s, measured %d times (blocks), with its sizes of messages", strings.Join(n.From, ", "), n.Blocks)
	if n.Mesh != n.RunningMesh {
		from += fmt.Sprintf("; its sidecars are of %s, not of %s", n.Mesh, n.RunningMesh)
	}
	low, high := math.Inf(1), 0.0
	var unscaled, bare []string
	for _, w := range n.Workloads {
		if w.Refused == "" && !slices.Contains(apps, w.Kind) {
			bare = append(bare, w.Title())
		}
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
	if bare != nil {
		row("not in the patch", "%s: not of kind %s", printable.Listed(bare, mostUnscaled), strings.Join(apps, ", "))
	}
	for _, w := range n.Workloads {
		switch mean := (w.Received + w.Sent) / float64(max(1, w.Pods)); {
		case w.Refused != "":
			row("not sized", "%s", w.Refused)
		case w.AtLimit():
			row("throttled", "a sidecar of %s uses %s of its CPU limit of %s, so it needs at least this size: remove the limit, and size it again", w.Title(), cpuQuantity(w.Used.CPU), cpuQuantity(w.LimitCPU))
		case w.LimitCPU > 0 && w.RequestCPU > w.LimitCPU:
			row("limit", "the CPU request of %s is above its limit of %s: remove the limit, or raise it, before the patch", w.Title(), cpuQuantity(w.LimitCPU))
		case w.Busiest > unevenPods*mean:
			row("uneven", "the busiest pod of %s has %.4g requests/s, and a mean one %.4g, of which the need is", w.Title(), w.Busiest, mean)
		}
	}
	if slices.ContainsFunc(n.Workloads, func(w predict.Need) bool { return w.Refused != "" }) && n.Command != "" {
		row("measure them", "%s", n.Command)
	}
	return facts
}

// mostUnscaled are the workloads that are named as not scaled, or not in the patch.
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

// overlaid is an annotation with settings over the present ones: a mapping keeps its other keys.
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
