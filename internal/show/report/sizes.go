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

// Sizes are the answer of tare size.
type Sizes struct {
	Schema string         `json:"schema"` // tare.size/v1
	From   string         `json:"from"`   // the results directory
	For    predict.Sizing `json:"for"`
	Sizes  []Sized        `json:"sizes"`
}

// Sized is a size, as a chart and a bill have it.
type Sized struct {
	predict.Size
	// ChartValues are the values of the mesh's chart that request it, nil if its chart has no place for them.
	ChartValues map[string]any `json:"chart_values,omitempty"`
	Month       *Month         `json:"month,omitempty"` // price of a proxy, if prices are known
}

// Month is the price of a proxy for a month of 730 hours.
type Month struct {
	Currency  string  `json:"currency"`
	Requested float64 `json:"requested"` // of its requests, for which nodes are bought
	Used      float64 `json:"used"`      // of its use, without headroom
}

// NewSizes returns sizes with the values of charts, and with money if prices are not nil.
func NewSizes(from string, s predict.Sizing, all []predict.Size, prices *answer.Prices) Sizes {
	sizes := Sizes{Schema: "tare.size/v1", From: from, For: s}
	for _, size := range all {
		x := Sized{Size: size}
		if d, err := mesh.Load(size.Mesh); err == nil && d.Kubernetes != nil && strings.HasPrefix(size.Proxy, mesh.RoleSidecar) {
			if v := d.Kubernetes.ProxyValues.Values(settingsOf(size)); len(v) > 0 {
				x.ChartValues = v
			}
		}
		if prices != nil {
			month := func(cores, mib float64) float64 {
				sum := cores * prices.Core.Month
				if prices.GiB != nil {
					sum += mib / 1024 * prices.GiB.Month
				}
				return sum
			}
			x.Month = &Month{prices.Currency, month(size.RequestCPU, size.RequestMemory), month(size.CPU.Estimate, size.Memory.Estimate)}
		}
		sizes.Sizes = append(sizes.Sizes, x)
	}
	return sizes
}

func settingsOf(size predict.Size) mesh.ProxySettings {
	return mesh.ProxySettings{Requests: map[string]string{"cpu": cpuQuantity(size.RequestCPU), "memory": memoryQuantity(size.RequestMemory)},
		Limits: map[string]string{"memory": memoryQuantity(size.LimitMemory)}}
}

// SizesForms lists every form of sizes, the default first.
func SizesForms() []Form[Sizes] {
	return Safe(
		Form[Sizes]{"text", "requests and limits of each proxy", writeSizes},
		Form[Sizes]{"json", "everything, with the curve", writeJSON[Sizes]},
		Form[Sizes]{"yaml", "resources of a container", writeResources},
		Form[Sizes]{"values", "values of the mesh's chart", writeChartValues},
	)
}

func writeSizes(w io.Writer, s Sizes) error {
	for i, size := range s.Sizes {
		if i > 0 {
			fmt.Fprintln(w)
		}
		c, more := size.Curve, 1+s.For.Headroom
		fmt.Fprintf(w, "%s:\n", sizedFor(s, size))
		fmt.Fprintf(w, "  requests: cpu %s (another deployment: %s to %s), memory %s\n",
			cpuQuantity(size.RequestCPU), cpuQuantity(size.CPU.NewLow*more), cpuQuantity(size.CPU.NewHigh*more), memoryQuantity(size.RequestMemory))
		fmt.Fprintf(w, "  limits:   memory %s; no CPU limit, because throttled proxies delay requests\n", memoryQuantity(size.LimitMemory))
		for _, l := range size.Limited {
			writeLimited(w, l)
		}
		if m := size.Month; m != nil {
			fmt.Fprintf(w, "  a month:  %.2f %s as requested, %.2f %s as used\n", m.Requested, m.Currency, m.Used, m.Currency)
		}
		fmt.Fprintf(w, "  measured: cpu %s (%s to %s) and memory %.0f MiB without headroom, peak %.0f MiB\n",
			cpuQuantity(size.CPU.Estimate), cpuQuantity(size.CPU.Low), cpuQuantity(size.CPU.High), size.Memory.Estimate, size.Peak)
		fmt.Fprintf(w, "  from:     %s at %s: %s\n", printable.Counted(c.Blocks, "block"), axesWords(c.Axes), c.Reason)
	}
	return nil
}

// writeLimited writes what limits of a proxy did.
func writeLimited(w io.Writer, l predict.Limited) {
	var limits, found []string
	if l.CPU > 0 {
		limits = append(limits, "cpu "+cpuQuantity(l.CPU))
	}
	if l.Memory > 0 {
		limits = append(limits, "memory "+memoryQuantity(l.Memory))
	}
	if l.OOMKilled > 0 {
		found = append(found, fmt.Sprintf("OOMKilled in %d of %d trials", l.OOMKilled, l.Trials))
	}
	if l.Periods > 0 {
		found = append(found, fmt.Sprintf("throttled in %d of %d periods", l.Reached, l.Periods))
	}
	if p := l.P99; p != nil {
		found = append(found, fmt.Sprintf("p99 grows by %.3g ms (%.3g to %.3g)", p.Estimate, *p.Low, *p.High))
	}
	if found == nil {
		found = []string{"no trial was valid"}
	}
	fmt.Fprintf(w, "  limited:  to %s, at %s requests/s: %s\n", strings.Join(limits, ", "), Level(l.At[experiment.RateFactor]), strings.Join(found, "; "))
}

// sizedFor names the proxy of a size, and the load.
func sizedFor(s Sizes, size Sized) string {
	text := fmt.Sprintf("%s, %s, at %s requests/s", sizedName(size.Size), size.Proxy, Level(s.For.Rate))
	for _, axis := range slices.Sorted(maps.Keys(s.For.At)) {
		text += fmt.Sprintf(", %s %s", axis, levelWords(axis, s.For.At[axis]))
	}
	return fmt.Sprintf("%s with %s headroom", text, experiment.Share(s.For.Headroom))
}

// axesWords are the measured ranges.
func axesWords(axes []predict.Axis) string {
	var words []string
	for _, a := range axes {
		switch {
		case a.Name == experiment.RateFactor:
			words = append(words, fmt.Sprintf("%d rates, %s to %s requests/s", a.Levels, Level(a.From), Level(a.To)))
		case a.Levels > 1:
			words = append(words, fmt.Sprintf("%s %s to %s", a.Name, levelWords(a.Name, a.From), levelWords(a.Name, a.To)))
		}
	}
	return strings.Join(words, ", ")
}

// sizedName is the mesh, with the other factors that it was measured with.
func sizedName(size predict.Size) string {
	name := Level(size.Factors[experiment.MeshFactor])
	for _, factor := range slices.Sorted(maps.Keys(size.Factors)) {
		if factor != experiment.MeshFactor {
			name += ", " + factor + " " + levelWords(factor, size.Factors[factor])
		}
	}
	return name
}

// writeResources writes the resources of containers, as Kubernetes has them.
func writeResources(w io.Writer, s Sizes) error {
	for _, size := range s.Sizes {
		p := settingsOf(size.Size)
		if err := writeDocument(w, sizedFor(s, size), map[string]any{"resources": map[string]any{"requests": p.Requests, "limits": p.Limits}}); err != nil {
			return err
		}
	}
	return nil
}

// writeChartValues writes the values of the meshes' charts.
func writeChartValues(w io.Writer, s Sizes) error {
	none := true
	for _, size := range s.Sizes {
		if size.ChartValues == nil {
			continue
		}
		none = false
		if err := writeDocument(w, size.Mesh+"'s chart: "+sizedFor(s, size), size.ChartValues); err != nil {
			return err
		}
	}
	if none {
		return hint.New("print the resources of a container with --format yaml", "no proxy of the run comes from a chart that has a place for its resources")
	}
	return nil
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
