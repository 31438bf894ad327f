package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
)

// Duration is a time.Duration written as Go writes it: "30s", "1m30s", "250ms".
type Duration = app.Duration

// Size is a number of bytes, written as a number or with a unit: 512, "1KiB", "1MB".
type Size = app.Size

// Wants describes the text for messages.
func (Status) Wants() string { return "a status such as 200, 2xx or grpc-0" }

// UnmarshalScalar reads a status.
func (s *Status) UnmarshalScalar(text string) error {
	if !load.IsStatus(text) {
		return fmt.Errorf("found %.40q, expected %s", text, s.Wants())
	}
	*s = Status(text)
	return nil
}

// String is the number, or "max".
func (r Rate) String() string {
	if r == Max {
		return "max"
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64)
}

// MarshalYAML writes a number, or max.
func (r Rate) MarshalYAML() (any, error) {
	if r == Max {
		return "max", nil
	}
	return float64(r), nil
}

// Wants describes the text for messages.
func (Rate) Wants() string { return "a number of requests per second, or max" }

// UnmarshalScalar reads requests per second, or "max". A rate of 0 is refused:
// the value 0 is [Max].
func (r *Rate) UnmarshalScalar(text string) error {
	if text == "max" {
		*r = Max
		return nil
	}
	f, err := strict.Number(text)
	switch {
	case err != nil:
		return fmt.Errorf("found %.40q, expected %s", text, r.Wants())
	case f == 0:
		return errors.New("a rate of 0 sends nothing; write max for a closed loop")
	}
	*r = Rate(f)
	return nil
}

// Share is a part of a whole, 0..1, written as "2%" or as 0.02.
type Share float64

// String is the share in percent.
func (s Share) String() string { return strconv.FormatFloat(100*float64(s), 'g', 6, 64) + "%" }

// Wants describes the text for messages.
func (Share) Wants() string { return "a share such as 2% or 0.02" }

// UnmarshalScalar reads a share.
func (s *Share) UnmarshalScalar(text string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	f, err := strict.Number(strings.TrimSpace(number))
	if err != nil {
		return fmt.Errorf("found %.40q, expected %s", text, s.Wants())
	}
	if percent {
		f /= 100
	}
	if !(f > 0 && f < 1) {
		return fmt.Errorf("%.40q is not above 0 and below 100%%", text)
	}
	*s = Share(f)
	return nil
}

// MarshalYAML writes a percentage.
func (s Share) MarshalYAML() (any, error) { return s.String(), nil }

// UnmarshalYAML reads a share.
func (s *Share) UnmarshalYAML(n *yaml.Node) error { return s.UnmarshalScalar(n.Value) }

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
