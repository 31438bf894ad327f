package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

const drawnHalves = 40

// halves draws halves of the blocks of a results directory, and counts the intervals of each half that hold the truth, as
// "39 of 40", and those of them that are withheld.
func (b *bench) halves(dir string, truth stats.Result) (string, error) {
	d, err := result.Open(dir)
	if err != nil {
		return "", err
	}
	defer d.Close()
	r := rand.New(rand.NewPCG(b.seed, 2))
	held, withheld := 0, 0
	for i := range drawnHalves {
		kept := r.Perm(b.blocks)[:b.blocks/2]
		report, err := analyzeBlocks(d, filepath.Join(b.dir, fmt.Sprintf("half%d", i)), kept)
		if err != nil {
			return "", err
		}
		switch difference, _ := estimated(report); {
		case difference == nil:
			withheld++
		case holds(difference, truth):
			held++
		}
	}
	return fmt.Sprintf("%d of %d, %d withheld", held, drawnHalves-withheld, withheld), nil
}

// analyzeBlocks is the report of the trials of some blocks, counted from 0. They are linked into a directory that it removes.
func analyzeBlocks(d *result.Dir, dir string, blocks []int) (*answer.Report, error) {
	defer os.RemoveAll(dir)
	if err := os.MkdirAll(filepath.Join(dir, result.TrialsDir), 0o700); err != nil {
		return nil, err
	}
	for _, name := range []string{result.ExperimentFile, result.PlanFile, result.EnvironmentFile} {
		if err := os.Link(filepath.Join(d.Path(), name), filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	p := d.Plan()
	for _, t := range p.Trials {
		if !slices.Contains(blocks, t.Block-1) {
			continue
		}
		if err := linkFiles(d.TrialFile(t.ID, ""), filepath.Join(dir, result.TrialsDir, t.ID)); err != nil {
			return nil, err
		}
	}
	half, err := result.Open(dir)
	if err != nil {
		return nil, err
	}
	defer half.Close()
	return answer.Analyze(half, compare.Options{})
}

// linkFiles links all files below a directory into another.
func linkFiles(from, to string) error {
	return filepath.WalkDir(from, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		in, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, in), 0o700)
		}
		return os.Link(name, filepath.Join(to, in))
	})
}
