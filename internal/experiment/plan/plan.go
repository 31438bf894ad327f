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
	ID      string            `json:"id"` // file-name safe, unique in the plan, e.g. "envoy-rate1000"
	Factors Factors           `json:"factors"`
	Levels  experiment.Levels `json:"levels"`            // the same, typed, with defaults filled in
	Control bool              `json:"control,omitempty"` // the second baseline of an A/A pair
	// Reference is the reference proxy beside a baseline: the standard weight.
	Reference bool   `json:"reference,omitempty"`
	Baseline  string `json:"baseline,omitempty"` // ID of the treatment this one is compared with; empty for a baseline
}

// Trial is one run of one treatment in one block.
type Trial struct {
	ID        string `json:"id"`      // "<ordinal>-<treatment>-b<block>", also its directory
	Ordinal   int    `json:"ordinal"` // from 1, in order of execution
	Block     int    `json:"block"`   // from 1
	Treatment string `json:"treatment"`
	// Seed of the trial's arrivals. The same for all treatments of a block: common random numbers narrow paired differences.
	Seed uint64 `json:"seed"`
	// Round is the number of the round, from 1, with order interleaved. Its trials are deployed
	// at once and share one schedule in slices; they are consecutive. 0: the trial runs alone.
	Round int `json:"round,omitempty"`
}

// Plan is the output of `tare plan`, and the content of plan.json.
type Plan struct {
	Schema     string `json:"schema"` // tare.plan/v1
	Experiment string `json:"experiment"`
	Seed       uint64 `json:"seed"`
	Blocks     int    `json:"blocks"` // the most, where Until is given
	// Until is how narrow an interval must be for the run to stop, from MinBlocks on; empty: it does not stop early.
	MinBlocks int    `json:"minBlocks,omitempty"`
	Until     string `json:"until,omitempty"`
	// Way that the load takes to the application, in words; empty: to the entry.
	Way string `json:"way,omitempty"`
	// Order of the trials if not random within each block: experiment.OrderBalanced, OrderTurns, OrderOnce or OrderInterleaved.
	Order string `json:"order,omitempty"`
	// Slices of rounds; absent without rounds.
	Slices     *Slices     `json:"slices,omitempty"`
	Treatments []Treatment `json:"treatments"`
	Trials     []Trial     `json:"trials"`
	// TrialTime is the expected duration of one trial and Expected of them all,
	// in nanoseconds: the phases plus an allowance for deploying and removing.
	TrialTime time.Duration `json:"trialTime"`
	Expected  time.Duration `json:"expected"`
	// MeshChanges is the number of installs and uninstalls of meshes in a cluster; Expected includes their time.
	MeshChanges int `json:"meshChanges,omitempty"`
}
