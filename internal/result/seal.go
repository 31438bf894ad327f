package result

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// SignatureFile is the signature of the directory's own manifest.
const SignatureFile = ManifestFile + ".minisig"

// ownFiles are the files of a results directory beside its trials.
var ownFiles = []string{ExperimentFile, PlanFile, EnvironmentFile, StoppedFile, OriginalsFile, OriginsFile}

// Seal writes the manifest of the directory at path, if it has none. Nothing may be writing to it.
func Seal(path string) error {
	d, err := Open(path)
	if err != nil {
		return err
	}
	if d.lock, err = acquire(path); err != nil {
		return err
	}
	return d.Close()
}

// seal writes the directory's own manifest, unless it has one. An unfinished directory gets none.
func (d *Dir) seal() error {
	for _, name := range []string{ManifestFile, PlanFile} {
		switch _, err := os.Lstat(d.file(name)); {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return storage("seal", d.path, err)
		case (err == nil) == (name == ManifestFile):
			return nil
		}
	}
	m := Manifest{Schema: Schema}
	names := slices.Clone(ownFiles)
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
	return m.write(d.file(ManifestFile))
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
	for _, name := range files {
		names = append(names, path.Join(TrialsDir, t.ID, name))
	}
	return names, nil
}

// unseal removes the directory's own manifest before a change.
func (d *Dir) unseal() error {
	if err := os.Remove(d.file(ManifestFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storage("change", d.path, err)
	}
	return nil
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
		if err := (&TrialDir{path: d.trialPath(t.ID), trial: t}).Seal(); err != nil {
			return err
		}
	}
	return nil
}

// Discard closes the directory of a run that ended before its first trial, and removes it.
func Discard(d *Dir) error {
	entries, err := os.ReadDir(d.file(TrialsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(entries) > 0 || d.lock == nil {
		return d.Close()
	}
	for _, name := range append([]string{TrialsDir, lockFile}, ownFiles...) {
		if err := os.Remove(d.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(storage("remove", d.file(name), err), d.lock.Close())
		}
	}
	err = errors.Join(os.Remove(d.path), d.lock.Close())
	d.lock = nil
	return err
}
