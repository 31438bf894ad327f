package experiment_test

import (
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
)

// Two values of one line are both replaced: the first moves the second.
func TestConvertOneLine(t *testing.T) {
	const before = "{apiVersion: tare.dev/v1alpha1, kind: Experiment, order: turns, metadata: {name: t}}\n"
	after, changes, err := experiment.Convert("x.yaml", []byte(before))
	const want = "{apiVersion: tare.dev/v1beta1, kind: Experiment, order: by-mesh, metadata: {name: t}}\n"
	if err != nil || string(after) != want || len(changes) != 2 || changes[0].Line != 1 || changes[1].Line != 1 {
		t.Errorf("%v, %+v\n%s", err, changes, after)
	}
}
