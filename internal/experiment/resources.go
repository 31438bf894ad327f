package experiment

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Resources are requests and limits of each container of a plane, on a cluster.
type Resources struct {
	Requests Amounts `yaml:"requests,omitempty" json:"requests,omitzero"`
	Limits   Amounts `yaml:"limits,omitempty" json:"limits,omitzero"`
}

// Amounts are CPUs and memory. 0 means absent.
type Amounts struct {
	CPU    Cores `yaml:"cpu,omitempty" json:"cpu,omitempty"`
	Memory Size  `yaml:"memory,omitempty" json:"memory,omitempty"` // bytes
}

// over returns r with the amounts of under where r has none.
func (r Resources) over(under Resources) Resources {
	return Resources{Requests: r.Requests.over(under.Requests), Limits: r.Limits.over(under.Limits)}
}

func (a Amounts) over(under Amounts) Amounts {
	return Amounts{CPU: cmp.Or(a.CPU, under.CPU), Memory: cmp.Or(a.Memory, under.Memory)}
}

// proxy are the settings of the sidecars on Kubernetes.
func (o MeshOptions) proxy() mesh.ProxySettings {
	return mesh.ProxySettings{Image: o.Image, Concurrency: o.Concurrency, Environment: o.Environment,
		Requests: o.Resources.Requests.quantities(), Limits: o.Resources.Limits.quantities()}
}

// quantities are the amounts as Kubernetes writes them, by resource.
func (a Amounts) quantities() map[string]string {
	all := map[string]string{}
	if a.CPU != 0 {
		all["cpu"] = fmt.Sprintf("%.0fm", 1000*float64(a.CPU))
	}
	if a.Memory != 0 {
		all["memory"] = fmt.Sprint(int64(a.Memory))
		if a.Memory%mebibyte == 0 {
			all["memory"] = fmt.Sprintf("%dMi", int64(a.Memory/mebibyte))
		}
	}
	return all
}

const mebibyte = Size(1 << 20)

// Cores is a number of CPUs, written as a number or in thousandths: 0.25, "250m".
type Cores float64

// coresForm is the form of [Cores] in thousandths.
const coresForm = `^[0-9]+m$`

// Wants describes the text for messages.
func (Cores) Wants() string { return "a number of CPUs such as 0.25 or 250m" }

// UnmarshalScalar reads a number of CPUs.
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

// ProgramsImage is the value that selects the image of tare-agent for a generator.
const ProgramsImage = "agent"

// Image is the image of a load generator in a cluster.
type Image struct {
	Image string `yaml:"image" json:"image"`
	// Path of the program in the image. Empty means the known path of the generator, else /NAME.
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
}

// ShortForm reads an image written as its reference only.
func (i *Image) ShortForm() (any, func()) {
	ref := new(string)
	return ref, func() { *i = Image{Image: *ref} }
}
