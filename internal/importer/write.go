package importer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// Platform is the platform in the experiment file of an import. No experiment
// with it can run.
const Platform = "import"

// Write creates the results directory of s. Its environment is the importing
// machine, on which nothing was measured. After an error no directory remains.
func Write(dir string, s *Study, env result.Environment) error {
	if len(s.Trials) == 0 {
		return errors.New("write import: there is no trial")
	}
	p, of := s.expand()
	head, err := s.experiment(p)
	if err != nil {
		return fmt.Errorf("write import: %w", err)
	}
	env.Platform = Platform
	d, err := result.CreateBulk(dir, head, p, env)
	if err != nil {
		return err
	}
	factors := map[string]plan.Factors{}
	for _, t := range p.Treatments {
		factors[t.ID] = t.Factors
	}
	var group errgroup.Group
	group.SetLimit(8) // most of the time is file system wait
	group.Go(routine.Guarded(func() error { return s.keep(d, p) }))
	for i := range s.Trials {
		group.Go(routine.Guarded(func() error {
			r := s.Trials[i].Record
			r.Factors = factors[of[i]]
			return d.Trial(p.Trials[i], r, s.Trials[i].Latency)
		}))
	}
	if err := group.Wait(); err != nil {
		return errors.Join(err, d.Discard())
	}
	if err := d.Finish(); err != nil {
		return errors.Join(err, d.Discard())
	}
	return d.Close()
}

// header is the experiment file of an import: the trials as far as their source
// describes them. It is for reading: no platform runs it.
type header struct {
	APIVersion string              `yaml:"apiVersion"`
	Kind       string              `yaml:"kind"`
	Metadata   experiment.Metadata `yaml:"metadata"`
	Platform   struct {
		Kind string `yaml:"kind"`
	} `yaml:"platform"`
	Import struct {
		Source string `yaml:"source"`
		Files  int    `yaml:"files"`
	} `yaml:"import"`
	Factors    map[string][]any `yaml:"factors"`
	Blocks     int              `yaml:"blocks"`
	Baseline   map[string]any   `yaml:"baseline,omitempty"`
	Confidence float64          `yaml:"confidence"`
}

func (s *Study) experiment(p *plan.Plan) ([]byte, error) {
	h := header{APIVersion: experiment.APIVersion, Kind: experiment.Kind, Blocks: p.Blocks, Confidence: 0.95, Factors: map[string][]any{}}
	h.Metadata = experiment.Metadata{Name: s.Name, Description: s.Description}
	h.Platform.Kind = Platform
	h.Import.Source = s.Source
	for i := range s.Trials {
		h.Import.Files += len(s.Trials[i].Files)
	}
	for _, t := range p.Treatments {
		for name, level := range t.Factors {
			if !slices.Contains(h.Factors[name], level) {
				h.Factors[name] = append(h.Factors[name], level)
			}
		}
		switch base := t.Levels.Application; {
		case base != "" && t.Baseline == "":
			h.Baseline = map[string]any{experiment.ApplicationFactor: base}
		case base == "" && slices.Contains(baselineNames, t.Levels.Mesh):
			h.Baseline = map[string]any{experiment.MeshFactor: t.Levels.Mesh}
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Made by tare import on %s. It describes the import and cannot be run.\n", time.Now().UTC().Format(time.DateOnly))
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(h), enc.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
