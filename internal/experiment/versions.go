package experiment

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// Versions of tare's YAML files. All are read, and [Convert] writes the current one.
const (
	APIVersion = "tare.dev/v1beta1"
	v1alpha1   = "tare.dev/v1alpha1"
)

// APIVersions lists the versions that are read, the current one first.
func APIVersions() []string { return []string{APIVersion, v1alpha1} }

// renaming is a value with another name since v1beta1. The old name remains in plan.json and within tare.
type renaming struct {
	path     string
	field    func(*Experiment) *string
	old, now string
}

var renamings = []renaming{
	{"order", func(e *Experiment) *string { return &e.Order }, OrderTurns, "by-mesh"},
}

// OrderName is the value of the field order for an order.
func OrderName(order string) string {
	for _, r := range renamings {
		if r.path == "order" && r.old == order {
			return r.now
		}
	}
	return order
}

// readVersion gives values the names that they have within tare, and the experiment the current version. A file of
// v1alpha1 may use both names.
func (e *Experiment) readVersion(doc *strict.Document) {
	for _, r := range renamings {
		switch f := r.field(e); {
		case *f == r.now:
			*f = r.old
		case *f == r.old && e.APIVersion != v1alpha1:
			doc.Report(r.path, fmt.Sprintf("%q is %q since %s", r.old, r.now, APIVersion), "write "+r.path+": "+r.now)
		}
	}
	if slices.Contains(APIVersions(), e.APIVersion) {
		e.APIVersion = APIVersion
	}
}

// current is a copy of e with the names of the current version.
func (e *Experiment) current() *Experiment {
	c := *e
	for _, r := range renamings {
		if f := r.field(&c); *f == r.old {
			*f = r.now
		}
	}
	return &c
}
