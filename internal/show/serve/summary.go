package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/live"
	"github.com/tare-mesh/tare/internal/show/report"
)

// summary is a run in the list. It is kept by the digest of the run's manifest.
type summary struct {
	Experiment string    `json:"experiment"`
	Began      time.Time `json:"began"`
	Machine    string    `json:"machine"`
	Tare       string    `json:"tare,omitempty"`
	Meshes     []string  `json:"meshes"`
	Planned    int       `json:"planned"`
	Used       int       `json:"used"`
	Missing    int       `json:"missing,omitempty"` // trials that an interrupted run did not make
	Warnings   int       `json:"warnings"`
	Answer     string    `json:"answer,omitempty"` // the first sentence of the report
	Gates      string    `json:"gates,omitempty"`  // their outcome in a sentence, empty without gates
	// Decided is the outcome of all gates together.
	Decided compare.Outcome `json:"decided,omitempty"`
	// Headline is the difference of the first treatment that is compared, for the history.
	Metric   string   `json:"metric,omitempty"`
	Unit     string   `json:"unit,omitempty"`
	Headline *float64 `json:"headline,omitempty"`
	Error    string   `json:"error,omitempty"` // the report could not be made
}

// summaries are made one at a time in the background, and kept in a file.
type summaries struct {
	file string
	stop chan struct{}
	wake chan struct{}
	done chan struct{}
	once sync.Once

	mu       sync.Mutex
	byDigest map[string]summary
	digests  map[string]string  // by stamp, so that an unchanged manifest is not read again
	briefs   map[string]summary // by path and time of the plan
	due      map[string]run     // by digest
}

// cacheSchema of the file. Another one is not read.
const cacheSchema = "tare.summaries/v3"

type cacheFile struct {
	Schema    string             `json:"schema"`
	Summaries map[string]summary `json:"summaries"`
}

const maxCache = 64 << 20

func newSummaries(file string) *summaries {
	s := &summaries{file: file, stop: make(chan struct{}), wake: make(chan struct{}, 1), done: make(chan struct{}),
		byDigest: map[string]summary{}, digests: map[string]string{}, briefs: map[string]summary{}, due: map[string]run{}}
	var kept cacheFile
	if text, err := regular.ReadFile(file, maxCache); err == nil && json.Unmarshal(text, &kept) == nil && kept.Schema == cacheSchema {
		maps.Copy(s.byDigest, kept.Summaries)
	}
	go routine.Guarded(s.work)()
	return s
}

// close may be called again.
func (s *summaries) close() {
	s.once.Do(func() { close(s.stop) })
	<-s.done
}

// summaryOf returns the summary of a run, as far as it is made.
func (s *summaries) summaryOf(r run) (_ summary, complete, ended bool) {
	stamp := r.stamp()
	if stamp == "" {
		return s.briefly(r), true, false
	}
	s.mu.Lock()
	digest, known := s.digests[stamp]
	s.mu.Unlock()
	if !known {
		digest = r.digest()
	}
	if digest == "" {
		return summary{Experiment: r.ID, Error: "the list of its files cannot be read"}, true, true
	}
	s.mu.Lock()
	s.digests[stamp] = digest
	found, ok := s.byDigest[digest]
	if !ok {
		s.due[digest] = r
	}
	s.mu.Unlock()
	if ok {
		return found, true, true
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return s.briefly(r), false, true
}

// briefly reads the plan and the environment once.
func (s *summaries) briefly(r run) summary {
	info, err := r.root.Lstat(filepath.ToSlash(filepath.Join(r.name, result.PlanFile)))
	if err != nil {
		return summary{Error: err.Error()}
	}
	key := fmt.Sprintf("%s %d", r.path, info.ModTime().UnixNano())
	s.mu.Lock()
	found, ok := s.briefs[key]
	s.mu.Unlock()
	if ok {
		return found
	}
	made := summary{Experiment: r.ID}
	if err := r.contained(); err != nil {
		made.Error = err.Error()
	} else if d, err := result.Open(r.path); err != nil {
		made.Error = err.Error()
	} else {
		made = brief(d)
		_ = d.Close()
	}
	s.mu.Lock()
	s.briefs[key] = made
	s.mu.Unlock()
	return made
}

// work makes the summaries that are due.
func (s *summaries) work() {
	defer close(s.done)
	for {
		select {
		case <-s.stop:
			return
		case <-s.wake:
		}
		made := false
		for {
			s.mu.Lock()
			var digest string
			var r run
			for digest, r = range s.due {
				break
			}
			s.mu.Unlock()
			if digest == "" {
				break
			}
			var sum summary
			if err := r.contained(); err != nil {
				sum = summary{Experiment: r.ID, Error: err.Error()}
			} else {
				sum = summarize(r.path)
			}
			s.mu.Lock()
			s.byDigest[digest] = sum
			delete(s.due, digest)
			s.mu.Unlock()
			made = true
			select {
			case <-s.stop:
				s.keep()
				return
			default:
			}
		}
		if made {
			s.keep()
		}
	}
}

// summarize analyses a run.
func summarize(path string) summary {
	d, err := result.Open(path)
	if err != nil {
		return summary{Error: err.Error()}
	}
	defer d.Close()
	s := brief(d)
	r, err := answer.Analyze(d, compare.Options{})
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.Used, s.Planned, s.Missing, s.Warnings = r.Count.Used, r.Count.Planned, r.Count.Missing, len(r.Warnings)
	h := live.HeadlineOf(r)
	if len(h.Answer) > 0 {
		s.Answer = h.Answer[0]
	}
	if len(r.Decisions) > 0 {
		s.Gates, s.Decided = report.OutcomesInWords(r.Decisions), r.Decided()
	}
	for _, t := range r.Treatments {
		if of, ok := h.Of[t.ID]; ok && !of.Control {
			s.Metric, s.Unit, s.Headline = h.Title, h.Unit, &of.Estimate
			break
		}
	}
	return s
}

// brief is the part that needs no analysis.
func brief(d *result.Dir) summary {
	e, p := d.Environment(), d.Plan()
	s := summary{Experiment: p.Experiment, Began: e.Time.UTC(), Tare: e.Tare, Planned: len(p.Trials)}
	cpus := printable.Counted(e.CPUs, "CPU")
	if e.CPUs == 0 { // an import
		cpus = "CPUs unknown"
	}
	s.Machine = strings.TrimPrefix(e.CPUModel+", "+cpus, ", ")
	if e.Platform != "" && e.Platform != "local" {
		s.Machine += ", " + e.Platform
	}
	meshes := map[string]bool{}
	for _, t := range p.Treatments {
		if t.Levels.Mesh != "" {
			meshes[t.Levels.Mesh] = true
		} else if m, ok := t.Factors[experiment.MeshFactor].(string); ok {
			meshes[m] = true
		}
	}
	s.Meshes = slices.Sorted(maps.Keys(meshes))
	return s
}

// keep writes the file. A failure costs the next start some time.
func (s *summaries) keep() {
	if s.file == "" {
		return
	}
	s.mu.Lock()
	made := maps.Clone(s.byDigest)
	s.mu.Unlock()
	maps.DeleteFunc(made, func(_ string, of summary) bool { return of.Error != "" }) // the next start may have no such error
	text, err := json.Marshal(cacheFile{cacheSchema, made})
	if err != nil || os.MkdirAll(filepath.Dir(s.file), 0o700) != nil {
		return
	}
	partial := s.file + ".partial"
	if os.WriteFile(partial, text, 0o600) == nil {
		_ = os.Rename(partial, s.file)
	}
}
