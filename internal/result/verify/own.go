package verify

import (
	"path"

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
	f.added(d, f.compare(d, "", m, "the run", nil))
}

// added finds files that the directory's manifest does not list. A reader takes figures from some. In a signed
// directory each could be of another person.
func (f *findings) added(d *result.Dir, listed map[string]bool) {
	signed := exists(d, result.SignatureFile)
	names, err := result.Beside(d)
	if err != nil {
		f.problem(".", reason(err))
	}
	for _, name := range names {
		switch {
		case listed[name], name == result.StoppedFile: // [findings.stopped] has its problem
		case result.Required(name):
			f.problem(name, "it is not in "+result.ManifestFile+": it was added after the run")
		case signed:
			f.problem(name, "it is not in "+result.ManifestFile+", and so not signed: remove it, or remove "+result.SignatureFile+" and sign again")
		}
	}
	for _, t := range d.Plan().Trials {
		in := func(name string) string { return path.Join(result.TrialsDir, t.ID, name) }
		if listed[in(result.ManifestFile)] || !exists(d, in(result.RecordFile)) {
			continue
		}
		names, err := d.Files(t.ID)
		if err != nil {
			f.problem(in(""), reason(err))
		}
		for _, name := range names {
			if !listed[in(name)] {
				f.problem(in(name), "it is not in the directory's "+result.ManifestFile)
			}
		}
	}
}
