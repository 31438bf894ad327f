package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/result"
)

const (
	deepest     = 3     // levels below a directory given at which runs are found
	mostEntries = 50000 // of a scan
	maxList     = 64 << 20
)

// index finds runs below the directories given. It opens them as roots: names that lead out of them
// fail, with `..` or by a link.
type index struct {
	roots    []root
	releases []func()
}

type root struct {
	*os.Root
	path   string
	prefix string // of identifiers, where several directories were given
}

// run is a results directory below a root.
type run struct {
	ID   string
	path string // for tare's own readers, after contained
	root root
	name string // within the root
}

func openIndex(dirs []string) (*index, error) {
	x := &index{}
	taken := map[string]bool{}
	for _, dir := range dirs {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		opened, err := os.OpenRoot(absolute)
		if err != nil {
			return nil, errors.Join(hint.Wrap(err, "give the directory that tare run printed, or one with several of them"), x.close())
		}
		x.releases = append(x.releases, regular.Confine(opened))
		r := root{Root: opened, path: absolute}
		if len(dirs) > 1 {
			name := filepath.Base(absolute)
			for n := 2; taken[name]; n++ {
				name = fmt.Sprintf("%s-%d", filepath.Base(absolute), n)
			}
			taken[name], r.prefix = true, name
		}
		x.roots = append(x.roots, r)
	}
	return x, nil
}

func (x *index) close() error {
	for _, release := range x.releases {
		release()
	}
	var errs []error
	for _, r := range x.roots {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// runs lists the results directories. Links are not followed.
func (x *index) runs() ([]run, error) {
	var all []run
	left := mostEntries
	for _, r := range x.roots {
		found, err := r.find(".", 0, &left)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (r root) find(dir string, depth int, left *int) ([]run, error) {
	if info, err := r.Lstat(path.Join(dir, result.PlanFile)); err == nil && info.Mode().IsRegular() {
		id := path.Join(r.prefix, dir)
		if id == "." {
			id = filepath.Base(r.path)
		}
		return []run{{ID: id, path: filepath.Join(r.path, filepath.FromSlash(dir)), root: r, name: dir}}, nil
	}
	if depth == deepest {
		return nil, nil
	}
	entries, err := fs.ReadDir(r.FS(), dir)
	if err != nil {
		if depth > 0 {
			return nil, nil // removed since, or not readable
		}
		return nil, fmt.Errorf("list %s: %w", r.path, err)
	}
	var all []run
	for _, e := range entries {
		if *left--; *left < 0 {
			return all, nil
		}
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		found, err := r.find(path.Join(dir, e.Name()), depth+1, left)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// contained returns an error for a run with a link in it. A link that is made later is not followed out of the
// root either (regular.Confine).
func (r run) contained() error {
	return fs.WalkDir(r.root.FS(), r.name, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // a run under way renames its files
		case err != nil:
			return err
		case e.Type()&fs.ModeSymlink != 0:
			return hint.New("copy the file itself into the results directory", "%s is a link, and links are not followed", name)
		}
		return nil
	})
}

// digest of the list of the directory's files, which has the digests of all others. It is "" if there is none.
func (r run) digest() string {
	name, _ := r.list()
	if name == "" {
		return ""
	}
	f, err := r.root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\x00", r.path) // the list of one run may be copied into another
	if _, err := io.Copy(hash, io.LimitReader(f, maxList)); err != nil {
		return ""
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// stamp identifies the content of the list of the directory's files without reading it. It is "" if there is
// none, because the run is under way or was killed.
func (r run) stamp() string {
	name, info := r.list()
	if name == "" {
		return ""
	}
	return fmt.Sprintf("%s %d %d", r.path, info.Size(), info.ModTime().UnixNano())
}

// list is the name of the list of the directory's files, "" without one.
func (r run) list() (string, fs.FileInfo) {
	for _, of := range []string{result.SumsFile, result.ManifestFile} {
		name := path.Join(r.name, of)
		if info, err := r.root.Lstat(name); err == nil && info.Mode().IsRegular() {
			return name, info
		}
	}
	return "", nil
}
