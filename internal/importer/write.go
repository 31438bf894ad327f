package importer

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// Platform is the platform of an experiment file that stands for an import. No
// experiment with it can be run.
const Platform = "import"

// Write makes the results directory of s. Its environment is the machine the
// import was made on only in name: nothing was measured there.
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
	d, err := result.Create(dir, head, p, env)
	if err != nil {
		return err
	}
	defer d.Close()
	treatments := map[string]plan.Treatment{}
	for _, t := range p.Treatments {
		treatments[t.ID] = t
	}
	var group errgroup.Group
	group.SetLimit(4 * runtime.GOMAXPROCS(0)) // most of the time is spent waiting for the disk
	for i := range s.Trials {
		group.Go(func() error { return s.Trials[i].write(d, p.Trials[i], treatments[of[i]]) })
	}
	return errors.Join(group.Wait(), d.Close())
}

func (t *Trial) write(d *result.Dir, trial plan.Trial, of plan.Treatment) error {
	td, err := d.Trial(trial)
	if err != nil {
		return err
	}
	err = t.fill(td)
	if err != nil {
		return errors.Join(err, td.Abandon())
	}
	r := t.Record
	r.ID, r.Ordinal, r.Block, r.Treatment, r.Factors = trial.ID, trial.Ordinal, trial.Block, of.ID, of.Factors
	return td.Finish(r)
}

func (t *Trial) fill(td *result.TrialDir) error {
	if t.Latency != nil {
		if err := os.WriteFile(td.Path(result.LatencyFile), t.Latency, 0o644); err != nil {
			return fmt.Errorf("write latencies: %w", err)
		}
	}
	return t.provenance(td.Provenance())
}

// origin says where a figure came from.
type origin struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Copied bool   `json:"copied"` // it is in originals.tar, by its base name
}

// Names within a trial's provenance.
const (
	originsFile   = "origins.json"
	originalsFile = "originals.tar"
)

// maxCopy bounds a file that is copied beside its record; a larger one is named with its checksum.
const maxCopy = 1 << 20

// provenance keeps the files a trial was made of: small ones whole, in one archive.
func (t *Trial) provenance(dir string) error {
	var origins []origin
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, path := range t.Files {
		o, err := keep(w, path)
		if err != nil {
			return fmt.Errorf("keep %s: %w", path, err)
		}
		origins = append(origins, o)
	}
	b, err := json.MarshalIndent(origins, "", "  ")
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("keep what was imported: %w", err)
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, originsFile), append(b, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, originalsFile), archive.Bytes(), 0o644))
}

func keep(w *tar.Writer, path string) (origin, error) {
	f, err := os.Open(path)
	if err != nil {
		return origin{}, err
	}
	defer f.Close()
	hash := sha256.New()
	var head bytes.Buffer
	n, err := io.Copy(hash, io.TeeReader(f, &limited{&head}))
	if err != nil {
		return origin{}, err
	}
	o := origin{Path: path, Bytes: n, SHA256: hex.EncodeToString(hash.Sum(nil)), Copied: n <= maxCopy}
	if !o.Copied {
		return o, nil
	}
	err = w.WriteHeader(&tar.Header{Name: filepath.Base(path), Mode: 0o644, Size: n, Format: tar.FormatPAX})
	if err == nil {
		_, err = w.Write(head.Bytes())
	}
	return o, err
}

// limited keeps no more than is copied.
type limited struct{ *bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := maxCopy - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// header is the experiment file of an import: what the trials were, as far as
// their source says it. It is for reading; the platform keeps it from being run.
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
		if slices.Contains(noMesh, t.Levels.Mesh) {
			h.Baseline = map[string]any{"mesh": t.Levels.Mesh}
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Made by tare import on %s. It says what was imported and cannot be run.\n", time.Now().UTC().Format(time.DateOnly))
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(h), enc.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
