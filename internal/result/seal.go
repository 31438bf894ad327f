package result

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment/plan"
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
