package importer

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
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
