package experiment_test

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/must"
)

const batchFile = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: ends}
applications: {old: {command: [./old, build]}, new: {command: [./new, build]}}
factors: {application: [old, new]}
batch: {prepare: [make, clean], warmup: 2}
phases: {measure: 1500ms}
blocks: 5
`

func TestBatch(t *testing.T) {
	e := must.Get(experiment.Parse("f", []byte(batchFile), experiment.Names{}))(t)
	if e.Phases.Warmup != 0 || e.Phases.Drain != 0 || e.Phases.Prewarm != 0 || e.Batch.Warmup != 2 || e.NotInterleaved() != "" {
		t.Errorf("phases %+v, batch %+v, %s", e.Phases, e.Batch, e.NotInterleaved())
	}
	text := must.Get(e.YAML())(t) // a record, with all defaults
	again := must.Get(experiment.Parse("f", text, experiment.Names{}))(t)
	if again.Batch == nil || again.Phases.Warmup != 0 {
		t.Errorf("the record has batch %+v", again.Batch)
	}
	for want, change := range map[string][2]string{
		"a program that ends has no port":    {"[./new, build]", "[./new, '${port}']"},
		"a program that ends has no load":    {"blocks: 5", "blocks: 5\nload: {requests: [{path: /}]}"},
		"a program that ends has no traffic": {"[old, new]}", "[old, new], mesh: [none, envoy]}"},
		"before a process attaches":          {"new: {command: [./new, build]}", "new: {command: [./new, build], beside: [{name: spy, command: [spy, '${app.pid}']}]}"},
		"run on this machine":                {"blocks: 5", "blocks: 5\nplatform: {kind: kubernetes}"},
		"needs one program of your own":      {"new: {command: [./new, build]}", "new: {topology: echo}"},
		"-1 is not between 0 and 1000":       {"warmup: 2", "warmup: -1"},
	} {
		bad := strings.Replace(batchFile, change[0], change[1], 1)
		must.Fail(t, must.Err(experiment.Parse("f", []byte(bad), experiment.Names{})), want)
	}
}
