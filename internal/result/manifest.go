package result

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/regular"
)

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
		if err := td.sameMode(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return storage("set the mode of", td.Path(name), err)
		}
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

// sameMode gives a file of measurements the mode of events.jsonl. Programs write some with
// mode 0600, which a colleague could not read. Logs and configurations keep theirs.
func (td *TrialDir) sameMode(name string) error {
	want, err := td.held.Lstat(td.name(EventsFile))
	if err != nil {
		return err
	}
	info, err := td.held.Lstat(td.name(name))
	if err != nil || !info.Mode().IsRegular() || info.Mode() == want.Mode() {
		return err
	}
	return td.held.Chmod(td.name(name), want.Mode().Perm())
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
