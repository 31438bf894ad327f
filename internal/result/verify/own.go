package verify

import (
	"cmp"
	"path"
	"path/filepath"

	"github.com/tare-mesh/tare/internal/result"
)

// MaxManifest bounds the manifest of a directory in bytes: 10,000 trials have some 2 MB.
const MaxManifest = 64 << 20

// own compares the files of the directory with its own manifest.
func (f *findings) own(d *result.Dir) {
	m, err := d.Own()
	switch {
	case err != nil:
		f.problem(result.ManifestFile, reason(err))
		return
	case m == nil:
		f.note(result.ManifestFile, "the directory has none: its run goes on, was killed, or is of an older tare. Changes of "+result.EnvironmentFile+" cannot be found")
		return
	}
	listed := map[string]bool{}
	for _, want := range m.Files {
		listed[want.Name] = true
		if !filepath.IsLocal(filepath.FromSlash(want.Name)) {
			f.problem(result.ManifestFile, "it lists a file outside the directory")
			continue
		}
		f.files++
		got, err := result.Digest(d.Path(), want.Name)
		if err != nil {
			f.problem(want.Name, cmp.Or(missing(err), reason(err)))
			continue
		}
		if got != want {
			f.problem(want.Name, "it was changed after the run: its SHA-256 is not that of "+result.ManifestFile)
		}
	}
	for _, t := range d.Plan().Trials {
		record := path.Join(result.TrialsDir, t.ID, result.RecordFile)
		if !listed[record] && !listed[path.Join(result.TrialsDir, t.ID, result.ManifestFile)] && exists(d, record) {
			f.problem(record, "it is not in the directory's "+result.ManifestFile)
		}
	}
}
