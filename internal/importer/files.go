package importer

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/result"
)

// FileError is the error of an invalid imported file.
type FileError struct {
	Path string
	Line int // from 1, 0 for the file as a whole
	hint.Hinted
}

func (e *FileError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("read %s:%d: %v", e.Path, e.Line, e.Err)
	}
	return fmt.Sprintf("read %s: %v", e.Path, e.Err)
}

// InvalidFile marks the error as a mistake in a file, not a failure of tare.
func (*FileError) InvalidFile() {}

// loop matches the loop number after the mesh in a directory name: linkerd-00.
var loop = regexp.MustCompile(`-\d\d$`)

// MeshesOf returns the mesh of each directory: its name without the loop number. If
// directories in different places have one name, their parents' names count.
func MeshesOf(dirs []string) map[string]string {
	byName := map[string][][]string{} // the parts of each path
	parts := map[string][]string{}
	for _, dir := range dirs {
		path := dir
		if abs, err := filepath.Abs(dir); err == nil {
			path = abs
		}
		p := strings.Split(filepath.ToSlash(path), "/")
		name := &p[len(p)-1]
		*name = cmp.Or(loop.ReplaceAllString(*name, ""), *name)
		parts[dir] = p
		if !slices.ContainsFunc(byName[*name], func(q []string) bool { return slices.Equal(p, q) }) {
			byName[*name] = append(byName[*name], p)
		}
	}
	names := map[string]string{} // by path
	uses := map[string]int{}
	for name, places := range byName {
		for _, p := range places {
			own := cmp.Or(strings.Join(differing(p, places), "-"), name)
			names[strings.Join(p, "/")] = own
			uses[own]++
		}
	}
	meshes := map[string]string{}
	for dir, p := range parts {
		mesh, name := names[strings.Join(p, "/")], p[len(p)-1]
		if uses[mesh] > 1 && mesh != name { // "V1" of V1/istio and V1/linkerd
			mesh += "-" + name
		}
		meshes[dir] = mesh
	}
	return meshes
}

// differing returns the part of a path between those that all places have in common. A single
// place has none.
func differing(p []string, places [][]string) []string {
	same := func(part func([]string) string) bool {
		return !slices.ContainsFunc(places, func(q []string) bool { return part(q) != part(p) })
	}
	shortest := len(p)
	for _, q := range places {
		shortest = min(shortest, len(q))
	}
	from, to := 0, 0
	for from < shortest && same(func(q []string) string { return q[from] }) {
		from++
	}
	for to < shortest-from && same(func(q []string) string { return q[len(q)-1-to] }) {
		to++
	}
	return p[from : len(p)-to]
}

// ListFiles walks directories in the order of the paths, and returns each file
// once. It skips symbolic links below a directory, and paths that contain one of these words.
func (s *Study) ListFiles(paths []string, without ...string) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	add := func(path string) {
		word := slices.IndexFunc(without, func(word string) bool { return strings.Contains(path, word) })
		switch clean := filepath.Clean(path); {
		case seen[clean]:
		case word >= 0:
			s.Skipped = append(s.Skipped, path+": "+without[word]+" is in its path")
		default:
			seen[clean] = true
			files = append(files, clean)
		}
	}
	for _, p := range paths {
		p = filepath.Clean(p)
		info, err := os.Lstat(p)
		if err != nil {
			return nil, &FileError{Path: p, Hinted: hint.Hinted{Err: errors.Unwrap(err)}}
		}
		if link := linkIn(p); link != "" {
			return nil, &FileError{Path: p, Hinted: hint.Hinted{Err: fmt.Errorf("%s is a symbolic link, and %s would have files that it leads to", link, originalsFile), Text: "write the path that it leads to"}}
		}
		if !info.IsDir() {
			add(p)
			continue
		}
		err = filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return &FileError{Path: path, Hinted: hint.Hinted{Err: err}}
			case d.IsDir() && path != p && strings.HasPrefix(d.Name(), "."):
				return filepath.SkipDir
			case d.Type().IsRegular():
				add(path)
			case d.Type()&fs.ModeSymlink != 0:
				s.Skipped = append(s.Skipped, path+": it is a symbolic link")
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// linkIn returns the first part of a clean path, from its end, that is a symbolic link, "" without one. A shell's * expands
// to links of other people too. A directory of the file system's root, such as /tmp, may be one.
func linkIn(path string) string {
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 && (at == path || filepath.Dir(at) != string(filepath.Separator)) {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// maxFile is the max size of a file that is read whole. An hour at 1 Hz of the
// widest known CSV has 4 MiB. Raw results of load generators are streamed.
const maxFile = 256 << 20

// maxStream is the max size of a file that is read in parts.
const maxStream = 64 << 30

// maxOriginals is the max size of the originals kept in memory until they are
// written.
const maxOriginals = 64 << 20

// Read reads a file of the trial, and keeps the content if memory remains.
func (t *Trial) Read(path string, o Options) ([]byte, error) {
	b, err := ReadFile(path)
	if err != nil || o.memory == nil || len(b) > maxCopy {
		return b, err
	}
	if o.memory.Add(-int64(len(b))) < 0 {
		return b, nil
	}
	if t.originals == nil {
		t.originals = map[string][]byte{}
	}
	t.originals[path] = b
	return b, nil
}

// ReadFile reads a file of up to maxFile bytes.
func ReadFile(path string) ([]byte, error) {
	b, err := regular.ReadFile(path, maxFile)
	return b, fileError(path, err)
}

// openFile opens a file that is read in parts.
func openFile(path string) (*regular.File, error) {
	f, err := regular.Open(path, maxStream)
	return f, fileError(path, err)
}

// fileError is a [FileError] with the cause and the hint of err, nil for nil.
func fileError(path string, err error) error {
	if err == nil {
		return nil
	}
	e := &FileError{Path: path, Hinted: hint.Hinted{Err: err, Text: hint.Of(err)}}
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		e.Err = of.Err
	}
	return e
}

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
			message += fmt.Sprintf(": the logs come from a run at %g", other)
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
