package importer

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// checkCopies finds runs of which another has the same file, or the same start and requests: the
// results of one run in two formats. Copies are not independent runs.
func (s *Study) checkCopies() {
	type run struct {
		size    int64
		started time.Time
		n       int64
		hash    [sha256.Size]byte
	}
	var read []int // trials
	runs := make([]run, len(s.Trials))
	sized := map[int64]int{}
	for i := range s.Trials {
		t := &s.Trials[i]
		if l := t.Record.Load; l != nil || len(t.Record.Executions) > 0 {
			info, err := os.Stat(t.Files[0])
			if err != nil {
				continue
			}
			runs[i] = run{size: info.Size(), started: t.Record.Started}
			switch { // a file may have several programs that end
			case l != nil:
				runs[i].n = l.Intended
			case i > 0 && s.Trials[i-1].Files[0] == t.Files[0]:
				runs[i].n = runs[i-1].n + 1
			}
			sized[info.Size()]++
			read = append(read, i)
		}
	}
	for _, i := range read {
		if sized[runs[i].size] > 1 {
			runs[i].hash = hashOf(s.Trials[i].Files[0])
		}
	}
	for at, i := range read {
		k := slices.IndexFunc(read[:at], func(k int) bool {
			a, b := runs[k], runs[i]
			return a.n == b.n && (a.hash == b.hash && a.hash != [sha256.Size]byte{} || !a.started.IsZero() && a.started.Equal(b.started))
		})
		if k < 0 {
			continue
		}
		original, copied := &s.Trials[read[k]], &s.Trials[i]
		message := fmt.Sprintf("%s and %s are of one run", original.Files[0], copied.Files[0])
		copied.overlaps(message)
		if original.Mesh != copied.Mesh || original.Application != copied.Application { // the mesh of the run is unknown
			original.overlaps(message)
		}
	}
}

// hashOf is the SHA-256 of a file, or zero if it cannot be read.
func hashOf(path string) (sum [sha256.Size]byte) {
	f, err := openFile(path)
	if err != nil {
		return sum
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum
	}
	copy(sum[:], h.Sum(nil))
	return sum
}

// CheckOverlap invalidates runs of one directory that overlap in time: one system
// runs one at a time. They are copies of one another, or a clock was set between
// them. The trials are sorted by their start.
func (s *Study) CheckOverlap() {
	for i := range s.Trials {
		for k := i + 1; k < len(s.Trials); k++ {
			a, b := &s.Trials[i], &s.Trials[k]
			if !b.Record.Started.Before(a.Record.Ended) {
				break // later runs start later
			}
			if a.Record.Started.IsZero() || a.Mesh != b.Mesh || filepath.Dir(a.Files[0]) != filepath.Dir(b.Files[0]) {
				continue
			}
			message := fmt.Sprintf("%s and %s were measured at the same time: one is a copy of the other, or the clock was set back between them", a.Files[0], b.Files[0])
			if !a.overlapped() && b.overlapped() {
				continue // a copy of a
			}
			a.overlaps(message)
			b.overlaps(message)
		}
	}
}

func (t *Trial) overlaps(message string) {
	if !t.overlapped() {
		t.Invalidate("overlap", message, "leave out the copy")
	}
}

func (t *Trial) overlapped() bool {
	return slices.ContainsFunc(t.Record.Warnings, func(w result.Warning) bool { return w.Code == "overlap" })
}

// rateSlack is the tolerance for a rate divided among generators in whole
// requests.
const rateSlack = 0.02

// CheckRates compares the rate of the requests with the intended one. If only the
// file's name contains that, the file may be in the wrong place.
func (s *Study) CheckRates() {
	generators := s.generators()
	for i := range s.Trials {
		t := &s.Trials[i]
		asked := float64(t.Rate)
		if t.Record.Load == nil || !t.RateKnown || asked == 0 || math.Abs(t.sent-asked) <= rateSlack*asked {
			continue
		}
		message := fmt.Sprintf("%s is a run at %g requests/s, and %.1f/s were sent", t.Run, asked, t.sent)
		hint := "leave this run out; if the mesh cannot sustain the rate, report that as a result of its own"
		usual := generators[t.Mesh]
		other, near := s.nearRate(t, t.sent)
		switch {
		case t.logs < usual:
			message += fmt.Sprintf(": %d logs, and %d in other runs", t.logs, usual)
			hint = "restore the missing logs, or leave this run out"
		case t.RateNamed && near:
			message += fmt.Sprintf(": the logs are those of a run at %g", other)
			hint = "move the files to where they belong, or leave this run out"
		case !t.RateNamed && t.sent < asked:
			t.Warn("rate-unreached", message+": the load generator or the server was saturated", "compare these runs as runs of a closed loop, or measure at a lower rate")
			continue
		}
		t.Invalidate("other-rate", message, hint)
	}
}

// generators returns the usual number of logs per run, by mesh.
func (s *Study) generators() map[string]int {
	counts := map[string][]int{}
	for i := range s.Trials {
		if t := &s.Trials[i]; t.logs > 0 {
			counts[t.Mesh] = append(counts[t.Mesh], t.logs)
		}
	}
	usual := map[string]int{}
	for name, c := range counts {
		slices.Sort(c)
		usual[name] = c[len(c)/2]
	}
	return usual
}

// nearRate returns another rate of the study that the achieved rate fits.
func (s *Study) nearRate(t *Trial, achieved float64) (float64, bool) {
	for i := range s.Trials {
		if r := float64(s.Trials[i].Rate); s.Trials[i].Rate != t.Rate && math.Abs(achieved-r) <= rateSlack*r {
			return r, true
		}
	}
	return 0, false
}
