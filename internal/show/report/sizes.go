package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/predict"
)

// Sizes are the answer of tare size.
type Sizes struct {
	Schema string         `json:"schema"` // tare.size/v1
	From   string         `json:"from"`   // the results directory
	For    predict.Sizing `json:"for"`
	Sizes  []predict.Size `json:"sizes"`
}

// SizesForms lists every form of sizes, the default first.
func SizesForms() []Form[Sizes] {
	return Safe(
		Form[Sizes]{"text", "requests and limits of each proxy", writeSizes},
		Form[Sizes]{"json", "everything, with the curve", writeJSON[Sizes]},
		Form[Sizes]{"yaml", "resources for a chart's values", writeSizesYAML},
	)
}

func writeSizes(w io.Writer, s Sizes) error {
	for i, size := range s.Sizes {
		if i > 0 {
			fmt.Fprintln(w)
		}
		c, more := size.Curve, 1+s.For.Headroom
		fmt.Fprintf(w, "%s, %s, at %s requests/s with %s headroom:\n", sizedName(size), size.Proxy, Level(s.For.Rate), experiment.Share(s.For.Headroom))
		fmt.Fprintf(w, "  requests: cpu %s (another deployment: %s to %s), memory %s\n",
			cpuQuantity(size.RequestCPU), cpuQuantity(size.CPU.NewLow*more), cpuQuantity(size.CPU.NewHigh*more), memoryQuantity(size.RequestMemory))
		fmt.Fprintf(w, "  limits:   memory %s; no CPU limit, because throttled proxies delay requests\n", memoryQuantity(size.LimitMemory))
		fmt.Fprintf(w, "  measured: cpu %s (%s to %s) and memory %.0f MiB without headroom, peak %.0f MiB\n",
			cpuQuantity(size.CPU.Estimate), cpuQuantity(size.CPU.Low), cpuQuantity(size.CPU.High), size.Memory.Estimate, size.Peak)
		fmt.Fprintf(w, "  from:     %d blocks at %d rates, %s to %s requests/s: %s\n", c.Blocks, c.Rates, Level(c.From), Level(c.To), c.Reason)
	}
	return nil
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

// writeSizesYAML writes the resources of containers, as Kubernetes has them.
func writeSizesYAML(w io.Writer, s Sizes) error {
	for _, size := range s.Sizes {
		text, err := yaml.Marshal(map[string]any{"resources": map[string]any{
			"requests": map[string]string{"cpu": cpuQuantity(size.RequestCPU), "memory": memoryQuantity(size.RequestMemory)},
			"limits":   map[string]string{"memory": memoryQuantity(size.LimitMemory)},
		}})
		if err != nil {
			return fmt.Errorf("write resources: %w", err)
		}
		fmt.Fprintf(w, "---\n# %s, %s, at %s requests/s with %s headroom\n%s", sizedName(size), size.Proxy, Level(s.For.Rate), experiment.Share(s.For.Headroom), text)
	}
	return nil
}

// cpuQuantity and memoryQuantity are quantities as Kubernetes writes them.
func cpuQuantity(cores float64) string { return fmt.Sprintf("%.0fm", math.Max(1, cores*1000)) }

func memoryQuantity(mib float64) string { return fmt.Sprintf("%.0fMi", mib) }
