package importer

import (
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

// MeshOf returns the directory's name without the loop number.
func MeshOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	base := filepath.Base(dir)
	if short := loop.ReplaceAllString(base, ""); short != "" {
		return short
	}
	return base
}

// ListFiles walks directories in the order of the paths, and returns each file
// once. It skips paths that contain one of these words.
func (s *Study) ListFiles(paths []string, without ...string) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	take := func(path string) {
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
		info, err := os.Stat(p)
		if err != nil {
			return nil, &FileError{Path: p, Hinted: hint.Hinted{Err: errors.Unwrap(err)}}
		}
		if !info.IsDir() {
			take(p)
			continue
		}
		err = filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return &FileError{Path: path, Hinted: hint.Hinted{Err: err}}
			case d.IsDir() && path != p && strings.HasPrefix(d.Name(), "."):
				return filepath.SkipDir
			case d.Type().IsRegular():
				take(path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
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
	if err != nil {
		return nil, fileError(path, err)
	}
	return b, nil
}

// openFile opens a file that is read in parts.
func openFile(path string) (*regular.File, error) {
	f, err := regular.Open(path, maxStream)
	if err != nil {
		return nil, fileError(path, err)
	}
	return f, nil
}

// fileError is a [FileError] with the cause and the hint of err.
func fileError(path string, err error) error {
	e := &FileError{Path: path, Hinted: hint.Hinted{Err: err, Text: hint.Of(err)}}
	var of *fs.PathError
	if errors.As(err, &of) {
		e.Err = of.Err
	}
	return e
}
