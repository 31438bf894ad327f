package experiment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// Resources are what each container of a plane asks for on a cluster, and the most it may have.
type Resources struct {
	Requests Amounts `yaml:"requests,omitempty" json:"requests,omitzero"`
	Limits   Amounts `yaml:"limits,omitempty" json:"limits,omitzero"`
}

// Amounts are processors and memory; 0 is not said.
type Amounts struct {
	CPU    Cores `yaml:"cpu,omitempty" json:"cpu,omitempty"`
	Memory Size  `yaml:"memory,omitempty" json:"memory,omitempty"` // bytes
}

// Cores is a number of processors, written as a number or in thousandths: 0.25, "250m".
type Cores float64

// coresForm is what [Cores] in thousandths look like.
const coresForm = `^[0-9]+m$`

// Wants says what UnmarshalScalar expects.
func (Cores) Wants() string { return "a number of processors such as 0.25 or 250m" }

// UnmarshalScalar reads a number of processors.
func (c *Cores) UnmarshalScalar(text string) error {
	number, thousandths := strings.CutSuffix(text, "m")
	n, err := strict.Number(number)
	if thousandths {
		var whole uint64
		whole, err = strconv.ParseUint(number, 10, 32)
		n = float64(whole) / 1000
	}
	if err != nil {
		return fmt.Errorf("found %.40q, expected %s", text, c.Wants())
	}
	*c = Cores(n)
	return nil
}

// planesWithResources are the planes whose containers tare makes. Those of a mesh have what its own settings say.
var planesWithResources = []string{"app", "load"}

const (
	maxCores  = Cores(maxCPU)
	minMemory = Size(4 << 20) // less no program of ours starts with
	maxMemory = Size(1 << 50)
)

// resources checks what containers ask for.
func (v validation) resources() {
	for _, plane := range sortedKeys(v.e.Platform.Resources) {
		path, r := "platform.resources."+plane, v.e.Platform.Resources[plane]
		if !slices.Contains(planesWithResources, plane) {
			v.report(path, strict.DidYouMean(plane, planesWithResources), "there is no such plane: the containers of a mesh have what its own settings (meshes) say")
			continue
		}
		if plane == "app" && v.e.Application.Chart != nil {
			v.report(path, "write them into application.chart.values", "a chart's containers have what its values say")
		}
		if plane == "load" && v.e.Outside() {
			v.report(path, "leave it out", "the load is sent from outside the cluster")
		}
		for _, a := range []struct {
			name string
			Amounts
		}{{"requests", r.Requests}, {"limits", r.Limits}} {
			if a.CPU != 0 {
				within(v, path+"."+a.name+".cpu", a.CPU, 0.001, maxCores, "processors; 250m is a quarter of one")
			}
			if a.Memory != 0 {
				within(v, path+"."+a.name+".memory", a.Memory, minMemory, maxMemory, "bytes, or with a unit: 64MiB")
			}
		}
		if r.Limits.CPU != 0 && r.Requests.CPU > r.Limits.CPU {
			v.report(path+".requests.cpu", "", "%v is more than the limit, %v", float64(r.Requests.CPU), float64(r.Limits.CPU))
		}
		if r.Limits.Memory != 0 && r.Requests.Memory > r.Limits.Memory {
			v.report(path+".requests.memory", "", "%v is more than the limit, %v", r.Requests.Memory, r.Limits.Memory)
		}
	}
}
