package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer/analysis/analysistest"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// truth is the reality of a run of A, A again and B.
type truth struct {
	change float64 // of B's CPU against A's, share
	all    float64 // change of every treatment, share
	noise  float64 // of a pair, log scale
	lasts  float64 // autocorrelation of the pairs
	rare   float64 // share of blocks in which B costs a fifth more
	tails  bool    // the noise has the t distribution with 4 degrees of freedom
	day    float64 // standard deviation of the machine's speed between runs, log scale
	lost   float64 // share of trials that are invalid
	blocks int     // planned
	ends   int     // block after which the time was over, 0 if all blocks ran
}

// machineNoise is the deviation of the machine's speed between blocks. It is the same for A and B.
const machineNoise = 0.1

// write writes a results directory in which every trial is of this truth.
func (t truth) write(dir string, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 1))
	day := math.Exp(t.day * r.NormFloat64())
	machine := make([]float64, t.blocks+1)
	for b := range machine {
		machine[b] = day * math.Exp(machineNoise*r.NormFloat64())
		if t.day > 0 { // trials of separate runs have no pairs: only the day's speed is shared
			machine[b] = day
		}
	}
	lasting, rare := make([]float64, t.blocks+1), make([]float64, t.blocks+1)
	own := rand.New(rand.NewPCG(seed, 2))
	last := own.NormFloat64()
	for b := range lasting {
		last = t.lasts*last + math.Sqrt(1-t.lasts*t.lasts)*own.NormFloat64()
		if lasting[b], rare[b] = last, 1; own.Float64() < t.rare {
			rare[b] = 1.2
		}
	}
	of := func(level string) plan.Factors { return plan.Factors{"mesh": level} }
	a := analysistest.Truth{AppUS: 60, DataUS: 400, LoadUS: 20, AppMiB: 14, DataMiB: 50, MedianMS: 0.5}
	s := analysistest.Study{
		Name: "decisions", Blocks: t.blocks, Seed: seed, Warmup: 1, Measure: 3, Rate: 1000, Bare: true,
		Treatments: []analysistest.Treatment{
			{ID: "envoy-a", Factors: of("envoy-a"), Truth: a},
			{ID: "envoy-a-control", Factors: plan.Factors{"mesh": "envoy-a", plan.ControlFactor: true}, Baseline: "envoy-a", Control: true, Truth: a},
			{ID: "envoy-b", Factors: of("envoy-b"), Baseline: "envoy-a", Truth: a},
		},
		Change: func(record *result.Record) {
			noise := t.noise / math.Sqrt2 * t.draw(r)
			factor := machine[record.Block] * (1 + t.all)
			if record.Treatment == "envoy-b" {
				factor *= (1 + t.change) * rare[record.Block]
			}
			if t.lasts > 0 { // all of it in B
				if noise = 0; record.Treatment == "envoy-b" {
					noise = t.noise * lasting[record.Block]
				}
			}
			factor *= math.Exp(noise)
			for i := range record.Tasks {
				task := &record.Tasks[i]
				task.End.CPU = task.Start.CPU + int64(float64(task.End.CPU-task.Start.CPU)*factor)
			}
			if r.Float64() < t.lost {
				record.Valid = false
				record.Warnings = append(record.Warnings, result.Warning{Code: "rate-shortfall", Message: "synthetic", Invalidates: true})
			}
		},
	}
	d, err := s.Create(dir)
	if err != nil {
		return err
	}
	if err := d.Close(); err != nil || t.ends == 0 {
		return err
	}
	return t.end(dir)
}

// draw is noise of standard deviation 1.
func (t truth) draw(r *rand.Rand) float64 {
	if !t.tails {
		return r.NormFloat64()
	}
	return r.NormFloat64() / math.Sqrt((r.ExpFloat64()+r.ExpFloat64())/2) / math.Sqrt2 // variance of t with 4 degrees of freedom: 2
}

// end makes the run one whose time was over after a block.
func (t truth) end(dir string) error {
	written, err := result.Open(dir)
	if err != nil {
		return err
	}
	d, err := result.Resume(dir, written.Experiment(), written.Environment())
	if err != nil {
		return err
	}
	for _, trial := range d.Plan().Trials {
		if trial.Block > t.ends {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, result.TrialsDir, trial.ID)))
		}
	}
	stopped := result.Stopped{At: time.Now(), Block: t.ends, Why: "the time is over", Last: true}
	return errors.Join(err, d.Stop(stopped), d.Close())
}

// scratch makes a directory for results.
func (s settings) scratch() (string, func(), error) {
	dir, err := os.MkdirTemp(s.dir, "tare-decisions-*")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// chosen reports whether a line is to be made.
func (s settings) chosen(name string) bool { return strings.Contains(name, s.only) }

// share is a count in percent, with its standard error.
func share(count, of int) string {
	p := float64(count) / float64(of)
	return fmt.Sprintf("%.1f ± %.1f", 100*p, 100*math.Sqrt(p*(1-p)/float64(of)))
}
