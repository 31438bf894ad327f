package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// FileError is the error of an invalid imported file.
type FileError struct {
	Path string
	Line int // from 1; 0: the file as a whole
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
// once. Like the debate's own script, it skips paths that contain ERROR.
func (s *Study) ListFiles(paths []string) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	take := func(path string) {
		switch clean := filepath.Clean(path); {
		case seen[clean]:
		case strings.Contains(path, "ERROR"):
			s.Skipped = append(s.Skipped, path+": ERROR is in its path")
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
// widest known CSV has 4 MiB; raw results of load generators are streamed.
const maxFile = 256 << 20

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
	f, err := os.Open(path)
	if err != nil {
		return nil, &FileError{Path: path, Hinted: hint.Hinted{Err: err}}
	}
	defer f.Close()
	var size int64
	if info, err := f.Stat(); err == nil {
		size = min(info.Size(), maxFile)
	}
	whole := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err = whole.ReadFrom(io.LimitReader(f, maxFile+1))
	b := whole.Bytes()
	switch {
	case err != nil:
		return nil, &FileError{Path: path, Hinted: hint.Hinted{Err: err}}
	case len(b) > maxFile:
		return nil, &FileError{Path: path, Hinted: hint.Hinted{Err: fmt.Errorf("it has more than %d MiB", maxFile>>20)}}
	}
	return b, nil
}
