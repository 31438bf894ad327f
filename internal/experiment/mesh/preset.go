package mesh

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/metric"
)

// Attribution is a classification of tasks that replaces the rules in their mesh's definition.
type Attribution struct {
	Name        string `yaml:"name" json:"name" required:"add name: my-attribution"`
	Description string `yaml:"description" json:"description"`
	// Tasks are the rules: the first that matches wins.
	Tasks []Rule `yaml:"tasks" json:"tasks"`
}

// LoadAttribution finds a classification by its name among the known, or reads it from a file when nameOrPath contains a
// slash or ends in .yaml.
func LoadAttribution(nameOrPath string, known []Attribution) (Attribution, error) {
	if !IsPath(nameOrPath) {
		var names []string
		for _, a := range known {
			if a.Name == nameOrPath {
				return a, nil
			}
			names = append(names, a.Name)
		}
		return Attribution{}, fmt.Errorf("unknown attribution %q: known are %s, or the path of a .yaml file", nameOrPath, strings.Join(names, ", "))
	}
	data, err := strict.ReadFile(nameOrPath)
	if err != nil {
		return Attribution{}, fmt.Errorf("read attribution: %w", err)
	}
	return DecodeAttribution(nameOrPath, data)
}

// DecodeAttribution reads a classification. Errors have the name of its file, the line and the column.
func DecodeAttribution(name string, data []byte) (Attribution, error) {
	var a Attribution
	doc, err := strict.Parse(name, data)
	if err != nil {
		return a, err
	}
	doc.Decode(&a)
	v := &validation{doc: doc, text: data}
	v.rules("", reflect.ValueOf(a), "")
	return a, v.err()
}

// Attribute returns t with the plane, role and component of the classification. It does not change tasks outside
// clusters (without a namespace), nor tare's own.
func (a Attribution) Attribute(t Task) Task {
	if t.Namespace == "" || t.Plane == metric.Harness {
		return t
	}
	t.Plane, t.Role, t.Component = metric.Unattributed, "", ""
	apply(a.Tasks, &t)
	return t
}
