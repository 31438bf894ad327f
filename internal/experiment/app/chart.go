package app

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
)

// Chart is the Helm chart of an application, instead of services that tare-agent runs. The topology's services then
// have the names of the chart's Services, and their calls.
type Chart struct {
	Chart   string `yaml:"chart" json:"chart"`                         // oci://…, a directory or an archive, or a name in Repo
	Repo    string `yaml:"repo,omitempty" json:"repo,omitempty"`       // URL of a chart repository
	Version string `yaml:"version,omitempty" json:"version,omitempty"` // of the chart
	Release string `yaml:"release,omitempty" json:"release,omitempty"` // default app
	// Values of the chart, in YAML.
	Values string `yaml:"values,omitempty" json:"values,omitempty"`
	// Spread are values merged over Values if pods run on different nodes. They are YAML.
	Spread string `yaml:"spread,omitempty" json:"spread,omitempty"`
	// Replicas is the name of the value for the factor's level: defaultReplicas, or face.replicas.
	// Empty means that the chart has none.
	Replicas string `yaml:"replicas,omitempty" json:"replicas,omitempty"`
	// Port of the entry's Service, by default 80.
	Port int `yaml:"port,omitempty" json:"port,omitempty"`
}

// Local reports whether the chart is a directory or an archive on this machine.
func (c Chart) Local() bool { return c.Repo == "" && !strings.HasPrefix(c.Chart, "oci://") }

// ValuesFor returns the values for n replicas, spread over nodes or not. Those of a variant, YAML text, are laid over them.
func (c Chart) ValuesFor(replicas int, spread bool, variant string) (map[string]any, error) {
	values, err := mapping(c.Values)
	if err != nil {
		return nil, fmt.Errorf("read the chart's values: %w", err)
	}
	over, err := mapping(c.Spread)
	if err != nil {
		return nil, fmt.Errorf("read the chart's values for several nodes: %w", err)
	}
	if spread {
		manifest.Overlay(values, over)
	}
	if c.Replicas != "" {
		manifest.Overlay(values, manifest.Nested(c.Replicas, replicas))
	}
	changes, err := mapping(variant)
	if err != nil {
		return nil, fmt.Errorf("read the values of the variant: %w", err)
	}
	manifest.Overlay(values, changes)
	return values, nil
}

// foreign reports fields of services that only tare-agent supports, where others' objects run them, and the opposite.
func (v validation) foreign() {
	what := "chart.values is for the rest"
	if v.t.IsSet() {
		what = "the objects have the rest"
	}
	for i, s := range v.t.Services {
		at := fmt.Sprintf("services[%d]", i)
		switch {
		case s.Port < 0 || s.Port > 65535:
			v.report(at+".port", fmt.Sprintf("%d is not a port", s.Port), "")
		case !v.t.Foreign() && s.Port != 0:
			v.report(at+".port", "only a service of a chart, of manifests or of a namespace has a port of its own", "remove it")
		case v.t.Foreign() && (!reflect.DeepEqual(s.Behavior, Behavior{}) || s.Replicas != 0 || s.IsOwn()):
			v.report(at, "what it does and how many there are is the "+v.t.owner()+"'s affair", "leave name, protocol, port and calls; "+what)
		}
	}
}

// owner names the definition of the services.
func (t Topology) owner() string {
	if t.Chart != nil {
		return "chart"
	}
	return "application"
}

func (v validation) chart() {
	c := v.t.Chart
	if c == nil {
		return
	}
	if c.Chart == "" {
		v.report("chart.chart", "no chart is named", "name a directory or an archive with a chart, oci://…, or give repo: the URL of a chart repository")
	}
	if c.Release != "" && (!IsLabel(c.Release) || len(c.Release) > 53) {
		v.report("chart.release", fmt.Sprintf("%.60q is no name of a release", c.Release), "lower-case letters, digits and -, at most 53")
	}
	for path, text := range map[string]string{"values": c.Values, "spread": c.Spread} {
		if _, err := mapping(text); err != nil {
			v.report("chart."+path, fmt.Sprintf("not a YAML mapping: %v", err), "write values: | and the values below it")
		}
	}
	if c.Port < 0 || c.Port > 65535 {
		v.report("chart.port", fmt.Sprintf("%d is no port", c.Port), "")
	}
}

func mapping(text string) (map[string]any, error) {
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		return nil, err
	}
	if values == nil {
		values = map[string]any{}
	}
	return values, nil
}

// ObjectChanges are the changes of a variant in the objects that run an application, on a cluster.
type ObjectChanges struct {
	Images  map[string]string `yaml:"images,omitempty" json:"images,omitempty"`   // by container
	Values  string            `yaml:"values,omitempty" json:"values,omitempty"`   // laid over the chart's values, as YAML text
	Patches []ObjectPatch     `yaml:"patches,omitempty" json:"patches,omitempty"` // applied in this order
}

// ObjectPatch changes the objects that its target selects.
type ObjectPatch struct {
	Target PatchTarget `yaml:"target,omitempty" json:"target,omitzero"`
	// Patch is the text of a strategic merge patch or of a JSON patch.
	Patch string `yaml:"patch" json:"patch"`
}

// PatchTarget selects objects by kind and name. Empty fields select all; without any the patch names its object itself.
type PatchTarget struct {
	Kind string `yaml:"kind,omitempty" json:"kind,omitempty"`
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
}

// String names the target in messages: "Deployment web".
func (t PatchTarget) String() string { return strings.TrimSpace(t.Kind + " " + t.Name) }

// IsZero reports whether nothing is changed.
func (c ObjectChanges) IsZero() bool {
	return len(c.Images) == 0 && c.Values == "" && len(c.Patches) == 0
}

// Over lays changes over the changes of the entry below: images by container, values in their place, patches after its patches.
func (c ObjectChanges) Over(below ObjectChanges) ObjectChanges {
	all := ObjectChanges{Images: maps.Clone(below.Images), Values: below.Values, Patches: slices.Concat(below.Patches, c.Patches)}
	if all.Images == nil {
		all.Images = map[string]string{}
	}
	maps.Copy(all.Images, c.Images)
	if c.Values != "" {
		all.Values = c.Values
	}
	return all
}

// Words describe each change: "images.web=shop/web:2", "patch of Deployment web".
func (c ObjectChanges) Words() (all []string) {
	all = lists.Map(slices.Sorted(maps.Keys(c.Images)), func(container string) string { return "images." + container + "=" + c.Images[container] })
	if c.Values != "" {
		all = append(all, "values="+strings.Join(strings.Fields(c.Values), " "))
	}
	for _, p := range c.Patches {
		text := "patch"
		if name := p.Target.String(); name != "" {
			text += " of " + name
		}
		all = append(all, text)
	}
	return all
}

// Check reports mistakes that the text shows, each with the path of its field.
func (c ObjectChanges) Check(report func(path, hint, message string)) {
	for container, image := range c.Images {
		if image == "" || strings.ContainsAny(image, " \t\n") {
			report("images."+container, "write REGISTRY/NAME:TAG", "not an image reference")
		}
	}
	if _, err := mapping(c.Values); err != nil {
		report("values", "write values: | and the values below it", fmt.Sprintf("not a YAML mapping: %v", err))
	}
	for i, p := range c.Patches {
		if strings.TrimSpace(p.Patch) == "" {
			report(fmt.Sprintf("patches[%d].patch", i), "write patch: | and the fields to change below it", "it is empty")
		}
	}
}
