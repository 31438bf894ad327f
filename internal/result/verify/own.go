package verify

import (
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// oldSignature is the signature that an older tare wrote of the directory's manifest.
const oldSignature = result.ManifestFile + ".minisig"

// list is the list of the directory's files, and what is in the directory.
type list struct {
	*result.Own                   // nil: the directory has none
	now         map[string]string // SHA-256 of the listed files that exist, by name
}

// own compares the files of the directory with their list.
func (f *findings) own(d *result.Dir) list {
	of, err := d.Own()
	l := list{Own: of, now: map[string]string{}}
	switch {
	case err != nil:
		f.problem(result.SumsFile, reason(err))
		l.Own = nil
	case of == nil:
		f.note(result.SumsFile, "the directory has none: its run goes on, was killed, or is of an older tare. Whether files are missing is unknown")
	case !of.Whole:
		f.note(result.ManifestFile, "an older tare wrote it, without the files of trials. Whether some are missing is unknown beyond the trials' own manifests")
	}
	if l.Own != nil {
		f.compareAll(d, l)
	}
	f.present(d, l)
	return l
}

// compareAll compares every listed file with its digest.
func (f *findings) compareAll(d *result.Dir, l list) {
	names := slices.Sorted(maps.Keys(l.Sums))
	digests, errs := make([]string, len(names)), make([]error, len(names))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			f.problem(l.Name, "it lists a file outside its directory")
			continue
		}
		group.Go(routine.Guarded(func() error {
			file, err := result.Digest(d.Path(), name)
			digests[i], errs[i] = file.SHA256, err
			return nil
		}))
	}
	_ = group.Wait() // the findings are the errors
	for i, name := range names {
		switch {
		case errs[i] != nil:
			f.problem(name, unread(errs[i], l.Name))
		case digests[i] != "":
			f.files++
			if l.now[name] = digests[i]; digests[i] != l.Sums[name] {
				f.problem(name, "it was changed after the run: its SHA-256 is not that of "+l.Name)
			}
		}
	}
}

// present finds what no tare wrote, or what the list does not have.
func (f *findings) present(d *result.Dir, l list) {
	root, err := filepath.EvalSymlinks(d.Path())
	if err != nil {
		f.problem(".", reason(err))
		return
	}
	full := map[string]bool{} // directories with a file below
	var dirs []string
	err = filepath.WalkDir(root, func(at string, e fs.DirEntry, err error) error {
		if err != nil || at == root {
			return err
		}
		name, err := filepath.Rel(root, at)
		if name = filepath.ToSlash(name); err != nil {
			return err
		}
		if e.IsDir() {
			dirs = append(dirs, name)
			return nil
		}
		for dir := path.Dir(name); !full[dir]; dir = path.Dir(dir) {
			full[dir] = true
		}
		f.file(d, l, name, e)
		return nil
	})
	if err != nil {
		f.problem(".", reason(err))
	}
	for _, dir := range dirs {
		if !full[dir] && !f.mayBeEmpty(d, dir) {
			f.problem(dir, "it is an empty directory, and no results directory of tare has one there")
		}
	}
}

// mayBeEmpty reports whether tare leaves a directory empty: of a trial, or of the logs of one.
func (f *findings) mayBeEmpty(d *result.Dir, dir string) bool {
	parts := strings.Split(dir, "/")
	if parts[0] != result.TrialsDir || len(parts) > 3 || len(parts) == 3 && parts[2] != result.ProvenanceDir {
		return false
	}
	return len(parts) == 1 || planned(d, strings.TrimSuffix(parts[1], result.PartialSuffix))
}

func planned(d *result.Dir, id string) bool {
	return slices.ContainsFunc(d.Plan().Trials, func(t plan.Trial) bool { return t.ID == id })
}

// file judges the presence of one file.
func (f *findings) file(d *result.Dir, l list, name string, e fs.DirEntry) {
	switch mode := e.Type(); {
	case mode&fs.ModeSymlink != 0:
		f.problem(name, linked)
	case !mode.IsRegular():
		f.problem(name, "it is neither a file nor a directory, and no results directory of tare has one")
	case name == result.LockFile:
		f.note(name, "a tare is writing to the directory, or was killed")
	case !result.Listed(name):
		if name != result.SumsFile {
			f.note(name, "it is not checked. If it is a signature, check it with the program that made it")
		}
	case name == oldSignature:
		f.note(name, "the signature is not checked: minisign -Vm "+result.ManifestFile+" does")
	case l.Own == nil || l.Sums[name] != "" || name == result.ManifestFile && !l.Whole || name == result.StoppedFile: // [findings.stopped] has its problem
	case l.Whole && !f.open(d, name), result.Required(name):
		f.problem(name, "it is not in "+l.Name+": it was added after the run")
	case !l.Whole && strings.HasPrefix(name, result.TrialsDir+"/") && path.Base(name) == result.RecordFile && l.Sums[path.Join(path.Dir(name), result.ManifestFile)] == "":
		f.problem(name, "it is not in "+l.Name+": it was added after the run")
	}
}

// open reports whether a file is of a trial that had not ended with the run: without a record, or with a deployment whose
// removal tare did not see. Such files are in no list.
func (f *findings) open(d *result.Dir, name string) bool {
	parts := strings.Split(name, "/")
	if len(parts) < 3 || parts[0] != result.TrialsDir || !planned(d, parts[1]) {
		return false
	}
	if !exists(d, path.Join(result.TrialsDir, parts[1], result.RecordFile)) {
		return true
	}
	m, err := d.Manifest(parts[1])
	return err == nil && m != nil && !m.Complete && !result.Measured(parts[2]) && parts[2] != result.ManifestFile
}
