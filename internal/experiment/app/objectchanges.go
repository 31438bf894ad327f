package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

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
	for _, container := range slices.Sorted(maps.Keys(c.Images)) {
		all = append(all, "images."+container+"="+c.Images[container])
	}
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
