// Package importer converts results of other tools into results directories, so
// that tare's own analysis can read them.
//
// Every importer reads files into a [Study] and changes nothing else. [Write]
// creates the directory. Figures missing from the source stay absent. An invalid
// file becomes a failed trial whose error contains the file and the line. The
// others are imported, and no figure is guessed.
package importer

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// Source is one kind of foreign results.
type Source struct {
	Name string
	Doc  string // one sentence
	// Read reads files and directories. Its error stops the whole import, but an
	// error of one trial is in that trial.
	Read func(paths []string, o Options) (*Study, error)
}

// Generators returns the sources for outputs of load generators and of benchmarks, one per program.
func Generators() []Source {
	return lists.Map(formats, func(f format) Source { return Source{f.name, f.doc, f.read} })
}

// Options supply what the files lack. The zero value is the default.
type Options struct {
	// Warmup is cut after the load is first seen, and Tail before it is last seen.
	// Negative means that nothing is cut.
	Warmup, Tail time.Duration
	// Mesh is the level of the factor mesh. Empty means the name of each file's directory.
	Mesh string
	// Rate is the intended rate, if the files lack it. 0 means unknown.
	Rate float64
	// Corrected is set if latencies count from the intended start. oha's
	// --latency-correction does this without recording it.
	Corrected bool

	memory *atomic.Int64 // bytes of originals that may still be kept
}

// KeepOriginals returns o with memory for the originals of one import, so that
// they are read once.
func (o Options) KeepOriginals() Options {
	o.memory = new(atomic.Int64)
	o.memory.Store(maxOriginals)
	return o
}

// Usage in the Metrics API is up to two of its periods old. With a period of up
// to 30 s, readings after a minute do not contain the start. Without the last 30
// s, readings do not contain the end.
const (
	defaultWarmup = 60 * time.Second
	defaultTail   = 30 * time.Second
)

// Cuts returns the warm-up and the tail to cut, with their defaults.
func (o Options) Cuts() (warmup, tail time.Duration) {
	pick := func(v, otherwise time.Duration) time.Duration {
		if v == 0 {
			return otherwise
		}
		return max(v, 0)
	}
	return pick(o.Warmup, defaultWarmup), pick(o.Tail, defaultTail)
}

// Study is the content of an import, before it is written.
type Study struct {
	Source      string
	Name        string // DNS label
	Description string
	Trials      []Trial // in run order, if known
	// Meshes are the levels of mesh in the order of the paths.
	Meshes  []string
	Skipped []string // skipped files and the reasons
}

// Trial is one run of the other tool.
type Trial struct {
	Mesh        string
	Application string          // of programs that end, which have no mesh
	Rate        experiment.Rate // intended, or [experiment.Max] in a closed loop
	RateKnown   bool
	RateNamed   bool // only a name of a file or directory contains Rate
	Connections int  // 0: unknown
	Replicas    int  // 0: unknown
	Run         string
	Files       []string
	// Record lacks the fields that the plan sets: identity, factors, block.
	Record result.Record
	// Latency is the interval log. Nil means that the source has no counts.
	Latency []byte

	sent float64 // requests per second that were sent
	logs int     // outputs of load generators

	// originals are the contents of Files in memory, copied as read.
	originals map[string][]byte
}

// Failed returns the numbers of unreadable trials and of unusable trials.
func (s *Study) Failed() (failed, invalid int) {
	for i := range s.Trials {
		switch r := &s.Trials[i].Record; {
		case r.Error != "":
			failed++
		case !r.Valid:
			invalid++
		}
	}
	return failed, invalid
}

// Invalidate adds a warning that makes the trial unusable.
func (t *Trial) Invalidate(code, message, hint string) {
	t.Record.Valid = false
	t.Record.Warnings = append(t.Record.Warnings, result.Warning{Code: code, Message: message, Hint: hint, Invalidates: true})
}

// Warn adds a warning about some metrics. Without any it is about all.
func (t *Trial) Warn(code, message, hint string, metrics ...string) {
	t.Record.Warnings = append(t.Record.Warnings, result.Warning{Code: code, Message: message, Hint: hint, Metrics: metrics})
}

// Fail reduces the trial to its error.
func (t *Trial) Fail(err error) {
	r := &t.Record
	r.Valid, r.Error = false, err.Error()
	r.Sampled, r.Load, r.Executions, t.Latency = nil, nil, nil, nil
}

// Amount parses a quantity that cannot be negative.
func Amount(s string, units map[string]float64) (float64, error) {
	v, err := generator.Quantity(s, units)
	if err == nil && (v < 0 || math.Signbit(v)) {
		return 0, fmt.Errorf("%.40q is negative", s)
	}
	return v, err
}

// Suffixes of Kubernetes quantities for cores and bytes.
var (
	CPUUnits    = map[string]float64{"n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "": 1}
	MemoryUnits = map[string]float64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3, "": 1}
)

// TimeLayout is the layout of times without a zone, as kubectl scripts print them.
const TimeLayout = "2006-01-02 15:04:05"

// Limits of one cell. They reveal a shifted or damaged file.
const (
	MaxCores  = 1e6
	MaxMemory = 1 << 60 // bytes
	MaxRows   = 1 << 20 // per file
)

var errNumber = errors.New("not a number")

// Number parses a finite decimal number. Go's own parser also accepts NaN,
// infinities, hexadecimal and underscores, which no tool prints.
func Number(s string) (float64, error) {
	if s == "" || strings.ContainsAny(s, "xXpP_nNiI") {
		return 0, fmt.Errorf("%.40q is %w", s, errNumber)
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("%.40q is %w", s, errNumber)
	}
	return v, nil
}

// baselineNames are the names of directories and files that are baselines.
var baselineNames = []string{"none", "no-mesh", "without", "without-mesh", "unmeshed", "plain", "direct", "baseline", "base", "old", "before"}

// expand builds the plan of the trials: treatments by mesh and then rate, trials
// in run order. A block is the ordinal of a trial in its treatment. The runs
// were not interleaved, so trials are not paired within blocks.
func (s *Study) expand() (*plan.Plan, []string) {
	p := &plan.Plan{Schema: result.PlanSchema, Experiment: s.Name}
	factors := s.factors()
	byID := map[string]int{}
	of := make([]string, len(s.Trials))
	for i := range s.Trials {
		t := s.treatment(&s.Trials[i], factors)
		of[i] = t.ID
		if _, ok := byID[t.ID]; !ok {
			byID[t.ID] = len(p.Treatments)
			p.Treatments = append(p.Treatments, t)
		}
	}
	slices.SortStableFunc(p.Treatments, s.order)
	baselines(p.Treatments)
	runs := map[string]int{}
	for i, id := range of {
		runs[id]++
		p.Blocks = max(p.Blocks, runs[id])
		p.Trials = append(p.Trials, plan.Trial{ID: fmt.Sprintf("%03d-%s-b%d", i+1, id, runs[id]), Ordinal: i + 1, Block: runs[id], Treatment: id})
	}
	return p, of
}

// factor is a factor of the table that studies can have.
type factor struct {
	name string
	// known reports whether a trial has a level.
	known func(*Trial) bool
	// always: the factor is named even if it has one level.
	always bool
}

var allFactors = []factor{
	{experiment.ApplicationFactor, func(t *Trial) bool { return t.Application != "" }, true},
	{experiment.MeshFactor, func(t *Trial) bool { return t.Application == "" }, true},
	{experiment.RateFactor, func(t *Trial) bool { return t.RateKnown }, true},
	{experiment.ConnectionsFactor, func(t *Trial) bool { return t.Connections > 0 }, false},
	{experiment.ReplicasFactor, func(t *Trial) bool { return t.Replicas > 0 }, true},
}

// factors returns the factors in which trials differ, and those always named.
func (s *Study) factors() []factor {
	var named []factor
	for _, f := range allFactors {
		levels := map[any]bool{}
		for i := range s.Trials {
			// An unreadable run has only its name.
			if v, ok := f.level(&s.Trials[i]); ok && (f.always || s.Trials[i].Record.Error == "") {
				levels[v.Value] = true
			}
		}
		if len(levels) > 1 || f.always && len(levels) > 0 {
			named = append(named, f)
		}
	}
	return named
}

func (s *Study) treatment(t *Trial, factors []factor) plan.Treatment {
	out := plan.Treatment{Factors: plan.Factors{}, Levels: experiment.DefaultLevels()}
	var words []string
	for _, f := range factors {
		v, ok := f.level(t)
		if !ok {
			continue
		}
		out.Factors[f.name] = v.Value
		v.Apply(&out.Levels)
		words = append(words, safe(v.Token))
	}
	out.ID = strings.Join(words, "-")
	return out
}

// level is the trial's level of the factor. It is not ok if it has none.
func (f factor) level(t *Trial) (experiment.Level, bool) {
	if !f.known(t) {
		return experiment.Level{}, false
	}
	return experiment.LevelOf(f.name, experiment.Levels{Application: t.Application, Mesh: t.Mesh, Rate: t.Rate, Connections: t.Connections, Replicas: t.Replicas})
}

// safe converts a word for use in a file name.
func safe(word string) string {
	word = printable.Plain(word, "-_.", '-')
	word = strings.Trim(word[:min(len(word), 80)], ".-")
	return cmp.Or(word, "mesh")
}

// order sorts by mesh in the order of the paths, then by the numbers.
func (s *Study) order(a, b plan.Treatment) int {
	place := func(t plan.Treatment) int { return slices.Index(s.Meshes, t.Levels.Mesh) }
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Levels.Rate, b.Levels.Rate),
		cmp.Compare(a.Levels.Replicas, b.Levels.Replicas), cmp.Compare(a.Levels.Connections, b.Levels.Connections))
}

// baselines sets each treatment's baseline: the otherwise equal treatment
// without a mesh, if any. Of programs that end it is the first, unless another is named as one.
func baselines(treatments []plan.Treatment) {
	if treatments[0].Levels.Application != "" {
		base := max(0, slices.IndexFunc(treatments, func(t plan.Treatment) bool { return slices.Contains(baselineNames, t.ID) }))
		for i := range treatments {
			if i != base {
				treatments[i].Baseline = treatments[base].ID
			}
		}
		return
	}
	for i := range treatments {
		t := &treatments[i]
		if slices.Contains(baselineNames, t.Levels.Mesh) {
			continue
		}
		for _, b := range treatments {
			want := t.Levels
			want.Mesh = b.Levels.Mesh
			if slices.Contains(baselineNames, b.Levels.Mesh) && b.Levels == want {
				t.Baseline = b.ID
				break
			}
		}
	}
}

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
			h.Factors[name] = lists.Add(h.Factors[name], level)
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

// origin is the source file of a figure.
type origin struct {
	Trial string `json:"trial"`
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	// SHA256 is absent for the file of a failed trial that cannot be read, or that is too large.
	SHA256 string `json:"sha256,omitempty"`
	// Copied is its name in originals.tar. It is absent if the file was too large to be copied.
	Copied string `json:"copied,omitempty"`
}

// Names within the results directory of an import.
const (
	originsFile   = result.OriginsFile
	originalsFile = result.OriginalsFile
)

// maxCopy is the max size of a copied file. For larger files only the checksum
// is stored.
const maxCopy = 1 << 20

// keep archives the files of the trials: whole files up to 1 MiB, and the
// checksums of all files.
func (s *Study) keep(d *result.Bulk, p *plan.Plan) error {
	f, err := d.Create(originalsFile)
	if err != nil {
		return fmt.Errorf("keep the imported files: %w", err)
	}
	buffered := bufio.NewWriterSize(f, 256<<10)
	a := archive{tar: tar.NewWriter(buffered)}
	private := false
	for i := range s.Trials {
		limit, failed := int64(maxStream), s.Trials[i].Record.Error != ""
		if failed { // reading up to a stream's limit would take minutes
			limit = maxFile
		}
		for _, path := range s.Trials[i].Files {
			if info, err := os.Lstat(path); err == nil && info.Mode().Perm()&0o004 == 0 {
				private = true
			}
			err := a.add(p.Trials[i].ID, path, s.Trials[i].originals[path], limit)
			if _, bad := errors.AsType[*FileError](err); bad && failed {
				a.origins = append(a.origins, origin{Trial: p.Trials[i].ID, Path: path})
				continue
			}
			if err != nil {
				return errors.Join(fmt.Errorf("keep %s: %w", path, err), f.Close())
			}
		}
	}
	b, err := json.MarshalIndent(a.origins, "", "  ")
	if private { // others could not read each of the originals
		err = errors.Join(err, f.Chmod(0o600))
	}
	if err = errors.Join(err, a.tar.Close(), buffered.Flush(), f.Close()); err == nil {
		err = d.Write(originsFile, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep the imported files: %w", err)
	}
	return nil
}

// archive is the archive of an import's originals while it is written.
type archive struct {
	tar     *tar.Writer
	origins []origin
	buffer  []byte // up to maxCopy bytes and one more
}

// add adds a file. read is its content. Nil means that add reads the file, of at most limit bytes.
func (a *archive) add(trial, file string, read []byte, limit int64) error {
	if read != nil {
		return a.copy(trial, file, read)
	}
	if a.buffer == nil {
		a.buffer = make([]byte, maxCopy+1)
	}
	f, err := regular.Open(file, limit)
	if err != nil {
		return fileError(file, err)
	}
	defer f.Close()
	n, err := io.ReadFull(f, a.buffer)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
	case err != nil:
		return err
	default:
		return a.name(trial, file, f)
	}
	return a.copy(trial, file, a.buffer[:n])
}

func (a *archive) copy(trial, file string, b []byte) error {
	sum := sha256.Sum256(b)
	o := origin{Trial: trial, Path: file, Bytes: int64(len(b)), SHA256: hex.EncodeToString(sum[:]), Copied: path.Join(trial, filepath.Base(file))}
	a.origins = append(a.origins, o)
	if err := a.tar.WriteHeader(&tar.Header{Name: o.Copied, Mode: 0o644, Size: int64(len(b))}); err != nil {
		return err
	}
	_, err := a.tar.Write(b)
	return err
}

// name adds the checksum of a file too large to be copied. The buffer contains
// its beginning.
func (a *archive) name(trial, file string, rest io.Reader) error {
	hash := sha256.New()
	_, _ = hash.Write(a.buffer) // cannot fail
	n, err := io.Copy(hash, rest)
	if err != nil {
		return err
	}
	a.origins = append(a.origins, origin{Trial: trial, Path: file, Bytes: n + int64(len(a.buffer)), SHA256: hex.EncodeToString(hash.Sum(nil))})
	return nil
}
