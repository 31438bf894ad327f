package result

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/secret"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// SumsFile lists every file of a directory whose run has ended, in the form of sha256sum. Files called SumsFile and a
// suffix, such as signatures of it, are not listed.
const SumsFile = "SHA256SUMS"

// maxSums bounds SumsFile in bytes: 10,000 trials have some 10 MB.
const maxSums = 256 << 20

// ownFiles are the files of a results directory beside its trials.
var ownFiles = []string{ExperimentFile, PlanFile, EnvironmentFile, StoppedFile, OriginalsFile, OriginsFile}

// Own is the list of files at the top of a results directory.
type Own struct {
	Name  string            // [SumsFile], or [ManifestFile] of an older tare
	Sums  map[string]string // SHA-256, hexadecimal, by name with slashes
	Whole bool              // every file is listed; otherwise those beside the trials, and the manifests of trials
}

// Own returns the list of the directory's files, or nil if it has none: its run goes on, or was killed.
func (d *Dir) Own() (*Own, error) {
	text, err := regular.ReadFile(d.file(SumsFile), maxSums)
	if err == nil {
		sums, line, err := parseSums(text)
		if err != nil {
			return nil, &Error{Op: "read", Path: d.file(SumsFile), Line: line, Hinted: hint.Hinted{Err: err, Text: "restore the file from a copy"}}
		}
		return &Own{Name: SumsFile, Sums: sums, Whole: true}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, storage("read", d.file(SumsFile), err)
	}
	var m Manifest
	err = readJSON(d.file(ManifestFile), &m, Schema, func() string { return m.Schema })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	of := &Own{Name: ManifestFile, Sums: make(map[string]string, len(m.Files))}
	for _, f := range m.Files {
		of.Sums[f.Name] = f.SHA256
	}
	return of, err
}

// names are the characters that sha256sum escapes in the name of a file. Its line then begins with a backslash.
var names = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)

// formatSums returns digests in the form of sha256sum, in the order of names.
func formatSums(sums map[string]string) []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		escaped := names.Replace(name)
		if escaped != name {
			b.WriteByte('\\')
		}
		fmt.Fprintf(&b, "%s  %s\n", sums[name], escaped)
	}
	return b.Bytes()
}

// parseSums reads digests in the form of sha256sum. The error is of a line, from 1.
func parseSums(text []byte) (sums map[string]string, line int, err error) {
	sums = map[string]string{}
	for of := range strings.Lines(string(text)) {
		line++
		of, complete := strings.CutSuffix(of, "\n")
		rest, escaped := strings.CutPrefix(of, `\`)
		sum, name, ok := strings.Cut(rest, " ")
		digest, err := hex.DecodeString(sum)
		if !ok || !complete || err != nil || len(digest) != 32 || len(name) < 2 || name[0] != ' ' && name[0] != '*' {
			return nil, line, errors.New("it is not a SHA-256, two spaces and a name")
		}
		if name = name[1:]; escaped {
			name = unescaped(name)
		}
		if _, twice := sums[name]; twice {
			return nil, line, errors.New("its name is in an earlier line too")
		}
		sums[name] = strings.ToLower(sum)
	}
	return sums, 0, nil
}

func unescaped(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '\\' && i+1 < len(name) {
			i++
			switch name[i] {
			case 'n':
				b.WriteByte('\n')
				continue
			case 'r':
				b.WriteByte('\r')
				continue
			}
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

// Add writes a file into the directory at path, and lists it if its files are listed.
func Add(path, name string, content []byte) error {
	d, err := hold(path)
	if err != nil {
		return err
	}
	of, err := d.Own()
	if err == nil {
		err = d.held.write(name, content)
	}
	if err == nil && of != nil && of.Whole {
		of.Sums[name] = digest(content)
		err = d.held.write(SumsFile, formatSums(of.Sums))
	}
	return errors.Join(err, d.held.Close())
}

// hold opens and locks a results directory.
func hold(path string) (*Dir, error) {
	d, err := Open(path)
	if err != nil {
		return nil, err
	}
	d.held, err = acquire(path)
	return d, err
}

// Listed reports whether the list of a directory has a file called name, if there is one: not the list itself, nor
// what belongs to it, nor the lock.
func Listed(name string) bool {
	return name != SumsFile && !strings.HasPrefix(name, SumsFile+".") && name != LockFile
}

// Required reports whether a reader takes figures from the file called name, beside the trials.
func Required(name string) bool { return slices.Contains(ownFiles, name) }

// seal lists the files of a directory at the end of its run, unless nothing was written since it was listed. Files that
// may still change are left out: of trials without a record, and logs of deployments whose removal was not seen.
// Digests of a trial's manifest are taken over, so that a change since then is found.
func (d *Dir) seal() error {
	for _, name := range []string{SumsFile, ManifestFile} {
		if _, err := d.held.Lstat(name); err == nil {
			return nil
		}
	}
	if _, err := d.held.Lstat(PlanFile); err != nil {
		return nil // it has not begun
	}
	known, open, err := digested(d)
	if err != nil {
		return err
	}
	sums := map[string]string{}
	err = fs.WalkDir(d.held.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && open[name] == unrecorded:
			return fs.SkipDir
		case !e.Type().IsRegular() || !Listed(name) || strings.HasPrefix(name, SumsFile):
			return nil
		}
		sum, ok := known[name]
		if !ok && open[trialOf(name)] == unremoved {
			return nil
		}
		if !ok {
			f, err := Digest(d.path, name)
			if err != nil {
				return err
			}
			sum = f.SHA256
		}
		sums[name] = sum
		return nil
	})
	if err != nil {
		return storage("list the files of", d.path, err)
	}
	return d.held.write(SumsFile, formatSums(sums))
}

// States of a trial's directory whose files may still change.
const (
	unrecorded = iota + 1
	unremoved
)

// digested returns the digests that the manifests of trials have, by name in the results directory, and the directories of
// trials whose files may still change.
func digested(d *Dir) (known map[string]string, open map[string]int, err error) {
	known, open = map[string]string{}, map[string]int{}
	for _, t := range d.plan.Trials {
		dir := path.Join(TrialsDir, t.ID)
		if _, err := d.held.Lstat(path.Join(dir, RecordFile)); err != nil {
			open[dir] = unrecorded
			continue
		}
		text, err := regular.ReadFile(d.TrialFile(t.ID, ManifestFile), maxJSON)
		if errors.Is(err, fs.ErrNotExist) {
			continue // of a tare without them
		}
		if err != nil {
			return nil, nil, storage("read", d.TrialFile(t.ID, ManifestFile), err)
		}
		m, err := d.parseManifest(t.ID, text)
		if err != nil {
			return nil, nil, err
		}
		known[path.Join(dir, ManifestFile)] = digest(text)
		for _, f := range m.Files {
			known[path.Join(dir, f.Name)] = f.SHA256
		}
		if !m.Complete {
			open[dir] = unremoved
		}
	}
	return known, open, nil
}

// trialOf is the directory of the trial that has a file, "." for files of none.
func trialOf(name string) string {
	parts := strings.SplitN(name, "/", 3)
	if len(parts) < 3 || parts[0] != TrialsDir {
		return "."
	}
	return path.Join(parts[0], parts[1])
}

// Unsealed lists the recorded trials whose removal tare did not see, because it was killed.
func Unsealed(d *Dir) (trials []plan.Trial, err error) {
	for _, t := range d.plan.Trials {
		if _, err := regular.Lstat(d.TrialFile(t.ID, RecordFile)); err != nil {
			continue
		}
		m, err := d.Manifest(t.ID)
		if err != nil {
			return nil, err
		}
		if m != nil && !m.Complete {
			trials = append(trials, t)
		}
	}
	return trials, nil
}

// SealTrials writes the manifests of trials whose deployments are gone.
func SealTrials(d *Dir, trials []plan.Trial) error {
	for _, t := range trials {
		if err := d.unseal(); err != nil {
			return err
		}
		if err := d.trialDir(t).Seal(); err != nil {
			return err
		}
	}
	return nil
}

// unseal removes the list of the directory's files before a change.
func (d *Dir) unseal() error {
	return errors.Join(d.held.remove(SumsFile), d.held.remove(ManifestFile))
}

// Discard closes the directory of a run that ended before its first trial, and removes it.
func Discard(d *Dir) error {
	entries, err := os.ReadDir(d.file(TrialsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(entries) > 0 || d.held == nil {
		return d.Close()
	}
	for _, name := range append([]string{TrialsDir}, ownFiles...) {
		if err := d.held.remove(name); err != nil {
			return errors.Join(err, d.held.Close())
		}
	}
	err = errors.Join(d.held.Close(), os.Remove(d.path))
	d.held = nil
	return err
}

// Codes of the warnings about records that cannot be trusted.
const (
	RecordContradicts = "record-contradicts"
	RecordAltered     = "record-altered"
	LatencyAltered    = "latency-altered"
)

// trusted is the record of a planned trial, and its slices, nil if they are unreadable. It is invalid if it contradicts itself
// or differs from its manifest.
func (d *Dir) trusted(t plan.Trial) (Record, []Slice, error) {
	r, sum, err := d.Record(t)
	if err != nil {
		return Record{}, nil, err
	}
	changed, err := d.altered(t.ID, sum)
	if err != nil {
		return Record{}, nil, err
	}
	rows, unread := ReadSlices(d.TrialFile(t.ID, SlicesFile)) // tare verify names a missing or damaged file
	var wrong, times []string
	for _, f := range append(Refuted(d, &r, rows, unread == nil), unlogged(d, &r)...) {
		if text := f.File + ": " + f.Message; f.File == MeasuredFile || f.File == LatencyFile {
			times = append(times, text)
		} else {
			wrong = append(wrong, text)
		}
	}
	switch {
	case slices.Contains(changed, RecordFile) || slices.Contains(changed, SlicesFile):
		r.invalidate(Warning{Code: RecordAltered, Message: strings.Join(changed, ", ") + " was changed after the trial: its SHA-256 is not that of " + ManifestFile, Hint: restore})
	case len(changed) > 0:
		r.Warnings = append(r.Warnings, Warning{Code: LatencyAltered, Message: strings.Join(changed, ", ") + " was changed after the trial: latencies of this trial are withheld",
			Hint: restore, Withholds: true, Metrics: metric.From(metric.LatencyLog)})
	case len(times) > 0:
		r.Warnings = append(r.Warnings, Warning{Code: LatencyAltered, Message: strings.Join(times, "; ") + ": latencies of this trial are withheld",
			Hint: restore, Withholds: true, Metrics: metric.From(metric.LatencyLog)})
	}
	if len(wrong) > 0 {
		r.invalidate(Warning{Code: RecordContradicts, Message: "its figures contradict one another: " + strings.Join(wrong, "; "), Hint: restore})
	}
	return r, rows, nil
}

// lastEvents is the part of the events in which an outcome is, in bytes.
const lastEvents = 256 << 10

// unlogged compares the outcome of a trial with its last events, without decoding them: quotes within a text are escaped. `tare
// verify` compares the warnings too. Missing or damaged events, such as those of an import, refute nothing.
func unlogged(d *Dir, r *Record) []Refutation {
	f, err := regular.Open(d.TrialFile(r.ID, EventsFile), 1<<40)
	if err != nil || !r.Valid {
		return nil
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, err = f.Seek(max(0, size-lastEvents), io.SeekStart)
		if err != nil {
			return nil
		}
	}
	last, err := io.ReadAll(io.LimitReader(f, lastEvents))
	for _, kind := range []string{KindInvalid, KindError} {
		if err == nil && bytes.Contains(last, fmt.Appendf(nil, `"kind":"%s"`, kind)) {
			return []Refutation{{EventsFile, "it has an event " + kind + ", and the trial is valid"}}
		}
	}
	return nil
}

// invalidate excludes the trial in memory. The stored record is unchanged.
func (r *Record) invalidate(w Warning) {
	w.Invalidates = true
	r.Valid = false
	r.Warnings = append(slices.Clip(r.Warnings), w)
}

// refuseWords returns an error if a known secret is a part of a word that records need, such as the name of a field or of a
// treatment: the record would not have it any more. The error has neither the value nor the word.
func (d opening) refuseWords() error {
	if !secret.Any() || !slices.ContainsFunc(words(&d.dir.plan), func(word string) bool { return secret.In([]byte(word)) }) {
		return nil
	}
	return &Error{Op: "write to results directory", Path: d.dir.path, Hinted: hint.Hinted{
		Err:  errors.New("the value of a ${env:NAME} or ${file:PATH} of a header is a word of results, such as the name of a field or of a treatment"),
		Text: "use another value: results have " + secret.Mark + " in its place, wherever it is"}}
}

// words are the names of fields, and the values by which readers distinguish treatments, tasks, counters, phases and events.
func words(p *plan.Plan) []string {
	all := []string{KindRun, KindTimes, KindTrial, KindPhase, KindProgress, KindSample, KindSearch, KindFault, KindChange, KindError, KindInvalid, KindLog, KindDone, KindEnd,
		mesh.RoleSidecar, mesh.RoleWaypoint, mesh.RoleGateway, mesh.RoleNodeProxy, mesh.RoleDaemon, RoleRemainder, RoleNamespace, balance.LoadName,
		"deploy", "verify", "settle", "search", "warm-up", "measure", "drain", "open", loopClosed, "paced", "constant", "poisson", "replay"}
	for _, class := range []load.Class{load.OK, load.Status, load.Timeout, load.Conn} {
		all = append(all, load.TagResponse+string(class), load.TagService+string(class))
	}
	all = append(all, lists.Map(metric.Planes(), func(p metric.Plane) string { return string(p) })...)
	for _, p := range []balance.Point{balance.Sent, balance.OutReceived, balance.OutSent, balance.InReceived, balance.InSent, balance.Served, balance.Waypoint, balance.NodeOut, balance.NodeIn, balance.Gateway} {
		all = append(all, string(p))
	}
	all = append(all, string(balance.Requests), string(balance.Connections), string(balance.Handshakes))
	for _, t := range p.Treatments {
		all = append(all, t.ID)
		for name, level := range t.Factors {
			all = append(all, name, fmt.Sprint(level))
		}
	}
	all = append(all, lists.Map(p.Trials, func(t plan.Trial) string { return t.ID })...)
	seen := map[reflect.Type]bool{}
	for _, v := range []any{Record{}, Event{}, Environment{}, Manifest{}, Stopped{}, plan.Plan{}} {
		all = append(all, fieldNames(reflect.TypeOf(v), seen)...)
	}
	return all
}

// fieldNames are the names in JSON of the fields of a type and of the types in it.
func fieldNames(t reflect.Type, seen map[reflect.Type]bool) (all []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return fieldNames(t.Elem(), seen)
	case reflect.Struct:
	default:
		return nil
	}
	if seen[t] {
		return nil
	}
	seen[t] = true
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			all = append(all, name)
		}
		all = append(all, fieldNames(f.Type, seen)...)
	}
	return all
}

// Manifest lists files with their digests. That of a trial is written before the
// record, with the files that measurements are in, and again after the deployment
// was removed, with all files. That of a results directory, of older versions, lists the
// files beside the trials and the manifests of its trials.
type Manifest struct {
	Schema string `json:"schema"`          // `tare.results/v1`
	Trial  string `json:"trial,omitempty"` // the trial's `id`; absent: of the directory
	// Complete: no other file belongs to the trial. It is false if tare ended before
	// the deployment was removed: logs may then have grown.
	Complete bool   `json:"complete,omitempty"` // all files are listed, absent if tare ended before the deployment was removed
	Files    []File `json:"files"`              // by name
}

// File is one file of a [Manifest].
type File struct {
	Name   string `json:"name"`   // name in the trial's directory, with slashes
	Bytes  int64  `json:"bytes"`  // size
	SHA256 string `json:"sha256"` // SHA-256, hexadecimal
}

// measured are the files from which figures are computed, besides the record.
var measured = []string{EventsFile, LatencyFile, MeasuredFile, SlicesFile}

// Measured reports whether figures are computed from the file of a trial called name.
func Measured(name string) bool { return name == RecordFile || slices.Contains(measured, name) }

// maxFile bounds a file whose digest is computed, in bytes.
const maxFile = maxEvents

func fileOf(name string, content []byte) File {
	return File{Name: name, Bytes: int64(len(content)), SHA256: digest(content)}
}

// manifest writes the manifest of the measurements and the record, which is about
// to be written.
func (td *TrialDir) manifest(record File) error {
	m := Manifest{Schema: Schema, Trial: td.trial.ID, Files: []File{record}}
	for _, name := range measured {
		f, err := Digest(td.path, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return storage("read", td.Path(name), err)
		}
		m.Files = append(m.Files, f)
	}
	return m.write(td.held, td.name(ManifestFile))
}

// Seal writes the manifest of all files of a recorded trial. Nothing may write to
// the trial any more.
func (td *TrialDir) Seal() error {
	// A killed program leaves the temporary file of the manifest. It is about to be renamed, so it is not listed.
	if err := td.held.remove(temporary(td.name(ManifestFile))); err != nil {
		return err
	}
	if err := td.redact(); err != nil {
		return storage("remove secrets from the files of", td.path, err)
	}
	names, err := filesIn(td.path)
	if err != nil {
		return storage("read", td.path, err)
	}
	m := Manifest{Schema: Schema, Trial: td.trial.ID, Complete: true}
	for _, name := range names {
		f, err := Digest(td.path, name)
		if err != nil {
			return storage("read", td.Path(name), err)
		}
		m.Files = append(m.Files, f)
	}
	return m.write(td.held, td.name(ManifestFile))
}

func (m *Manifest) write(h *held, name string) error {
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return h.writeJSON(name, m)
}

// altered lists the measurements of a trial that differ from its manifest. An absent
// file is not among them: its figures are then unknown.
func (d *Dir) altered(id, record string) (names []string, err error) {
	m, err := d.Manifest(id)
	if m == nil || err != nil {
		return nil, err
	}
	for _, name := range append([]string{RecordFile}, measured[1:]...) {
		want, ok := m.Lookup(name)
		if !ok {
			if _, err := regular.Lstat(d.TrialFile(id, name)); err == nil { // it was added
				names = append(names, name)
			}
			continue
		}
		got := want
		if name == RecordFile {
			got.SHA256 = record
		} else if got, err = Digest(d.trialPath(id), name); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, storage("read", d.TrialFile(id, name), err)
		}
		if got != want {
			names = append(names, name)
		}
	}
	return names, nil
}

// Digest returns the entry of the file called name in the directory dir.
func Digest(dir, name string) (File, error) {
	f, err := regular.Open(filepath.Join(dir, filepath.FromSlash(name)), maxFile)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, f)
	if err != nil {
		return File{}, err
	}
	return File{Name: name, Bytes: n, SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

// Lookup returns the entry of the file called name.
func (m *Manifest) Lookup(name string) (File, bool) {
	return lists.First(m.Files, func(f File) bool { return f.Name == name })
}

// Manifest returns the manifest of the trial called id, or nil if it has none.
func (d *Dir) Manifest(id string) (*Manifest, error) {
	text, err := regular.ReadFile(d.TrialFile(id, ManifestFile), maxJSON)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, storage("read", d.TrialFile(id, ManifestFile), err)
	}
	return d.parseManifest(id, text)
}

func (d *Dir) parseManifest(id string, text []byte) (*Manifest, error) {
	var m Manifest
	if err := decode(d.TrialFile(id, ManifestFile), text, &m, Schema, func() string { return m.Schema }); err != nil {
		return nil, err
	}
	if m.Trial != id {
		return nil, &Error{Op: "read", Path: d.TrialFile(id, ManifestFile), Hinted: hint.Hinted{Err: errors.New("it is the manifest of trial " + m.Trial), Text: "trials of two runs have been mixed: restore the directory"}}
	}
	return &m, nil
}

// Files lists the files of the trial called id, without its manifest.
func (d *Dir) Files(id string) ([]string, error) { return filesIn(d.trialPath(id)) }

// filesIn lists the regular files in dir and below, but its manifest.
func filesIn(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil && d.Type().IsRegular() && name != ManifestFile {
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	return names, err
}

const restore = "restore the file from a copy, or leave this run out: `tare verify` lists what differs"
