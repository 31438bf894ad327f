package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/meter"
	"github.com/tare-mesh/tare/internal/platform"
)

// plainPlatform can do nothing out of the ordinary.
type plainPlatform struct{ platform.Platform }

// A run that is refused before its first trial leaves no directory behind.
func TestARefusedRunLeavesNoDirectory(t *testing.T) {
	file, out := filepath.Join(t.TempDir(), "partition.yaml"), filepath.Join(t.TempDir(), "results")
	const text = `apiVersion: tare.dev/v1alpha1
kind: Experiment
metadata: {name: partition}
factors: {mesh: [none], rate: [50]}
faults: [{kind: partition, at: 1s}]
phases: {warmup: 1s, measure: 3s, drain: 1s}
blocks: 1
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cli{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, catalog: newCatalog(), kill: t.Context()}
	opens := 0
	for i := range c.catalog.platforms {
		c.catalog.platforms[i].open = func(context.Context, *cli, opening) (*opened, error) {
			opens++
			return &opened{platform: plainPlatform{}, environment: meter.Host()}, nil
		}
	}
	root := newRootCommand(c)
	root.SetArgs([]string{"run", file, "--out", out})
	if err := root.ExecuteContext(t.Context()); !errors.Is(err, errors.ErrUnsupported) || opens != 1 {
		t.Errorf("%v, opened %d times", err, opens)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is %s: %v", out, err)
	}
}
