// Package plan turns an experiment into the ordered list of its trials. It is
// pure: the same experiment and seed give the same plan on every machine.
//
// The design is randomised complete blocks: each block runs every treatment
// once, in an order drawn from the seed. Drift of the machine then affects all
// treatments alike, and analysis can pair within blocks. A balanced order draws
// whole Williams designs. If changing the mesh is
// expensive, its trials can be kept together, within a block or over all blocks.
package plan

import (
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
)

// Factors is one combination of factor levels as records and reports show it:
// exactly the factors named in the experiment file, by their name there.
// Values are strings, float64 or bool, so that they survive JSON.
type Factors map[string]any

// Treatment is one combination of factor levels, resolved.
type Treatment struct {
	ID        string            `json:"id"`                  // name, safe in file names, unique
	Factors   Factors           `json:"factors"`             // levels of the experiment's factors
	Levels    experiment.Levels `json:"levels"`              // the same, typed, with defaults filled in
	Control   bool              `json:"control,omitempty"`   // a baseline that is measured again
	Reference bool              `json:"reference,omitempty"` // the reference proxy beside a baseline: the standard weight
	Baseline  string            `json:"baseline,omitempty"`  // its baseline, absent for a baseline
}

// Trial is one run of one treatment in one block.
type Trial struct {
	ID        string `json:"id"`        // name of the trial and of its directory
	Ordinal   int    `json:"ordinal"`   // position in the order, from 1
	Block     int    `json:"block"`     // block, from 1
	Treatment string `json:"treatment"` // a treatment's `id`
	// Seed of the trial's arrivals. The same for all treatments of a block: common random numbers narrow paired differences.
	Seed  uint64 `json:"seed"`            // seed of the arrivals, equal within a block
	Round int    `json:"round,omitempty"` // round whose trials run at once, from 1, absent for a trial alone
}

// Plan is the output of `tare plan`, and the content of plan.json.
type Plan struct {
	Schema     string `json:"schema"`              // `tare.plan/v1`
	Experiment string `json:"experiment"`          // the experiment's name
	Seed       uint64 `json:"seed"`                // seed of the order
	Blocks     int    `json:"blocks"`              // maximum number of blocks
	MinBlocks  int    `json:"minBlocks,omitempty"` // minimum number of blocks, absent without early stop
	Until      string `json:"until,omitempty"`     // interval width at which the run stops, or `valid`: at minBlocks without an invalid trial
	Way        string `json:"way,omitempty"`       // path of the load to the application, unless it is the entry
	Order      string `json:"order,omitempty"`     // `balanced`, `turns` (`by-mesh` in the file), `once`, `interleaved`, absent for random order
	// Slices of rounds, absent without rounds.
	Slices      *Slices       `json:"slices,omitempty"`
	Treatments  []Treatment   `json:"treatments"`
	Trials      []Trial       `json:"trials"`
	TrialTime   time.Duration `json:"trialTime"`             // expected duration of a trial, ns
	Expected    time.Duration `json:"expected"`              // expected duration of all trials, ns
	MeshChanges int           `json:"meshChanges,omitempty"` // mesh installs and uninstalls, which `expected` includes
}
