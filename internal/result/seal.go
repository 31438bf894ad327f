package result

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// SignatureFile is the signature of the directory's own manifest.
const SignatureFile = ManifestFile + ".minisig"

// ownFiles are the files of a results directory beside its trials.
var ownFiles = []string{ExperimentFile, PlanFile, EnvironmentFile, StoppedFile, OriginalsFile, OriginsFile}

// Seal writes the manifests of the directory at path again: of trials whose removal tare did not see, and its own
// with every file beside the trials. Nothing may be writing to it. [verify.Dir] finds changes before.
func Seal(path string) error {
	d, err := hold(path)
	if err != nil {
		return err
	}
	trials, err := Unsealed(d)
	if err == nil {
		err = SealTrials(d, trials)
	}
	var names []string
	if err == nil {
		names, err = Beside(d)
	}
	if err == nil {
		err = d.unseal()
	}
	if err == nil {
		err = d.seal(names)
	}
	return errors.Join(err, d.held.Close())
}

// Add writes a file into the directory at path and lists it in its manifest, if it has one. A signature of the
// manifest then fails.
func Add(path, name string, content []byte) error {
	d, err := hold(path)
	if err != nil {
		return err
	}
	m, err := d.Own()
	if err == nil {
		err = d.held.write(name, content)
	}
	if err == nil && m != nil && name != SignatureFile {
		m.Files = append(slices.DeleteFunc(m.Files, func(f File) bool { return f.Name == name }), fileOf(name, content))
		err = m.write(d.held, ManifestFile)
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

// Beside lists the files of the directory that are not of its trials, without its manifest, signature and lock.
func Beside(d *Dir) ([]string, error) {
	names, err := filesIn(d.path, TrialsDir)
	if err != nil {
		return nil, storage("read", d.path, err)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains([]string{SignatureFile, lockFile, temporary(ManifestFile), temporary(SignatureFile)}, name)
	}), nil
}

// Required reports whether the manifest must list the file called name, if there is one: a reader takes figures from it.
func Required(name string) bool { return slices.Contains(ownFiles, name) }

// seal writes the directory's own manifest with the files that exist, unless it has one. An unfinished directory gets none.
func (d *Dir) seal(names []string) error {
	for _, name := range []string{ManifestFile, PlanFile} {
		switch _, err := os.Lstat(d.file(name)); {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return storage("seal", d.path, err)
		case (err == nil) == (name == ManifestFile):
			return nil
		}
	}
	m := Manifest{Schema: Schema}
	names = slices.Clone(names)
	for _, t := range d.plan.Trials {
		of, err := sealedBy(d, t)
		if err != nil {
			return err
		}
		names = append(names, of...)
	}
	for _, name := range names {
		f, err := Digest(d.path, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return storage("read", d.file(name), err)
		}
		m.Files = append(m.Files, f)
	}
	return m.write(d.held, ManifestFile)
}

// sealedBy lists the files that vouch for a recorded trial: its manifest, or all of its files if an older
// tare wrote none.
func sealedBy(d *Dir, t plan.Trial) (names []string, err error) {
	if _, err := os.Lstat(d.TrialFile(t.ID, RecordFile)); err != nil {
		return nil, nil // it has not run, and resuming it may change its files
	}
	if _, err := os.Lstat(d.TrialFile(t.ID, ManifestFile)); err == nil {
		return []string{path.Join(TrialsDir, t.ID, ManifestFile)}, nil
	}
	files, err := d.Files(t.ID)
	if err != nil {
		return nil, storage("read", d.trialPath(t.ID), err)
	}
	return printable.Texts(files, func(name string) string { return path.Join(TrialsDir, t.ID, name) }), nil
}

// Own returns the directory's own manifest, or nil if it has none.
func (d *Dir) Own() (*Manifest, error) {
	var m Manifest
	err := readJSON(d.file(ManifestFile), &m, Schema, func() string { return m.Schema })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &m, err
}

// Unsealed lists the recorded trials whose removal tare did not see, because it was killed.
func Unsealed(d *Dir) (trials []plan.Trial, err error) {
	for _, t := range d.plan.Trials {
		if _, err := os.Lstat(d.TrialFile(t.ID, RecordFile)); err != nil {
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

// unseal removes the directory's own manifest before a change.
func (d *Dir) unseal() error {
	return d.held.remove(ManifestFile)
}

// Discard closes the directory of a run that ended before its first trial, and removes it.
func Discard(d *Dir) error {
	entries, err := os.ReadDir(d.file(TrialsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(entries) > 0 || d.held == nil {
		return d.Close()
	}
	for _, name := range append([]string{TrialsDir, lockFile}, ownFiles...) {
		if err := d.held.remove(name); err != nil {
			return errors.Join(err, d.held.Close())
		}
	}
	err = errors.Join(os.Remove(d.path), d.held.Close())
	d.held = nil
	return err
}
