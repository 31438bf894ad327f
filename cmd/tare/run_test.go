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

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/run/meter"
)

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
			return &opened{environment: meter.Host()}, nil
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

// A classification that is not there is said before anything runs, and not after hours of trials.
func TestRunWithAnUnknownAttribution(t *testing.T) {
	file, out := filepath.Join(t.TempDir(), "e.yaml"), filepath.Join(t.TempDir(), "results")
	text := "apiVersion: tare.dev/v1alpha1\nkind: Experiment\nmetadata: {name: e}\nfactors: {mesh: [none]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cli{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, catalog: newCatalog(), kill: t.Context()}
	for i := range c.catalog.platforms {
		c.catalog.platforms[i].open = func(context.Context, *cli, opening) (*opened, error) {
			t.Error("the platform was opened")
			return nil, errors.ErrUnsupported
		}
	}
	root := newRootCommand(c)
	root.SetArgs([]string{"run", file, "--out", out, "--attribution", "mine"})
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), `unknown attribution "mine": known are great-sidecar-debate`) {
		t.Error(err)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is %s: %v", out, err)
	}
}

// MT_SERVICECIDR says the network of the services, to `tare mesh` and to a run alike.
func TestServiceNetworkOfTheEnvironment(t *testing.T) {
	t.Setenv("MT_SERVICECIDR", "34.118.224.0/20")
	c := &cli{stderr: io.Discard, catalog: newCatalog()}
	if got := c.meshOptions(experiment.MeshOptions{}, nil).ServiceCIDR; got != "34.118.224.0/20" {
		t.Errorf("it is %q", got)
	}
}
