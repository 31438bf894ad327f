package experiment

import (
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// Batch makes the programs of the user programs that end, such as a compiler. A trial is executions without a port and
// without a load.
type Batch struct {
	// Prepare is a command before each execution, which is not measured.
	Prepare []string `yaml:"prepare,flow,omitempty" json:"prepare,omitempty"`
	// Input is the file on standard input, relative to the experiment file. Empty means no input.
	Input string `yaml:"input,omitempty" json:"input,omitempty"`
	// Warmup are executions of each program before its first trial, which are not measured.
	Warmup int `yaml:"warmup,omitempty" json:"warmup,omitempty"`
}

// maxWarmup bounds [Batch.Warmup].
const maxWarmup = 1000

// completeBatch removes the phases that only a load has.
func (f *File) completeBatch() {
	if f.Experiment.Batch == nil {
		return
	}
	p := &f.Experiment.Phases
	for path, phase := range map[string]*Duration{"phases.warmup": &p.Warmup, "phases.drain": &p.Drain, "phases.prewarm": &p.Prewarm} {
		if !f.Has(path) {
			*phase = 0
		}
	}
}

type batchRules struct{ validation }

func (v batchRules) validate() {
	if v.e.Batch == nil {
		return
	}
	if !v.local() {
		v.report("batch", "write platform: {kind: local}", "programs that end run on this machine")
	}
	refuse(v.validation, "", []string{"load.requests", "load.targets", "load.headers", "load.webSocket", "load.profile", "faults", "expect", "changes", "background", "starts",
		"reference", "phases.soak", "slices", "factors.rate", "factors.connections", "factors.route"},
		"remove it", "a program that ends has no load")
	for i, name := range v.e.meshes() {
		if name != "none" {
			v.report("factors.mesh", "remove it", "a program that ends has no traffic, and level %d is mesh %s", i, clip(name))
		}
	}
	all, _ := v.e.Topologies() // errors are reported elsewhere
	for _, t := range all {
		path := "application"
		if len(v.e.applications()) > 0 {
			path = "applications." + t.Name
		}
		for _, s := range t.Services {
			port := app.BesideProcess{Command: slices.Concat(s.Prefix, s.Command), Env: s.Env}
			switch {
			case len(t.Services) > 1 || len(s.Command) == 0:
				v.report(path, "write command: [PROGRAM, ARGUMENT, …]", "batch needs one program of your own")
			case s.UsesHost() || port.UsesPort():
				v.report(path+".command", "remove batch, if it is a server", "a program that ends has no port")
			case slices.ContainsFunc(s.Beside, func(b app.BesideProcess) bool { return b.Attaches(s.Name) }):
				v.report(path+".beside", "let it start the program, as prefix: py-spy record -- PROGRAM", "a program that ends may be over before a process attaches to it")
			}
		}
	}
}

func batchRows() []fieldRow {
	return []fieldRow{
		{"batch", "The programs end, such as a compiler: a trial is executions, as many as fit into phases.measure, at least one. With order: interleaved, which is the default, the programs of a block are executed in turn, with an empty program whose time is subtracted from executions below 5 ms.", nil, nil},
		{"batch.prepare", "Command before each execution, not measured: [make, clean].", nil, nil},
		{"batch.input", "File on standard input, relative to this file; default: no input.", nil, nil},
		{"batch.warmup", "Executions of each program before the first trial, not measured.", 0, between(0, maxWarmup, "")},
	}
}
