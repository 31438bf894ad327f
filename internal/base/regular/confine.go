package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// roots are the directories whose files are opened within them, by absolute path.
var roots struct {
	sync.RWMutex
	all      []*os.Root
	linkless map[string]bool // links within them are not followed either
}

// ErrLink is the cause of the error for a path with a symbolic link in it, below a directory of [NoLinks].
var ErrLink = errors.New("a symbolic link, which is not followed")

// Confine has every file below the directory of root opened within it, until release: a link that leads out of the
// directory is an error, also one that replaces a file after a check. The name of root must be an absolute path.
func Confine(root *os.Root) (release func()) {
	roots.Lock()
	defer roots.Unlock()
	roots.all = append(roots.all, root)
	return func() {
		roots.Lock()
		defer roots.Unlock()
		if i := slices.Index(roots.all, root); i >= 0 {
			roots.all = slices.Delete(roots.all, i, i+1)
		}
	}
}

// NoLinks has every file below dir opened without following a link, from now on. dir itself may be one.
func NoLinks(dir string) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return // the working directory was removed, and no file can be opened by its name
	}
	roots.Lock()
	defer roots.Unlock()
	if roots.linkless == nil {
		roots.linkless = map[string]bool{}
	}
	roots.linkless[absolute] = true
}

// Lstat returns the properties of a file. A link on the way to it is an error below a directory of [NoLinks].
func Lstat(path string) (fs.FileInfo, error) {
	roots.RLock()
	defer roots.RUnlock()
	root, name, err := linkless(path)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return os.Lstat(path)
	}
	defer root.Close()
	if err := real(root, filepath.Dir(name), path); err != nil {
		return nil, err
	}
	return root.Lstat(name)
}

// ReadDir lists a directory. A link in its place or on the way to it is an error below a directory of [NoLinks].
func ReadDir(path string) ([]fs.DirEntry, error) {
	roots.RLock()
	defer roots.RUnlock()
	root, name, err := linkless(path)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return os.ReadDir(path)
	}
	defer root.Close()
	if err := real(root, name, path); err != nil {
		return nil, err
	}
	return fs.ReadDir(root.FS(), filepath.ToSlash(name))
}

// openFile is [os.OpenFile] for reading, within the directories that have the path.
func openFile(path string) (*os.File, error) {
	roots.RLock()
	defer roots.RUnlock()
	root, name, err := linkless(path)
	if err != nil {
		return nil, err
	}
	if root != nil {
		defer root.Close()
		if err := real(root, name, path); err != nil {
			return nil, err
		}
		return root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if root, name := nearest(filepath.Clean(path)); root != nil {
		return root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// linkless opens the directory of [NoLinks] that has a path, and returns the name of the path in it. It returns nil
// for other paths.
func linkless(path string) (root *os.Root, name string, err error) {
	if len(roots.linkless) == 0 {
		return nil, "", nil
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	for dir := filepath.Dir(absolute); ; dir = filepath.Dir(dir) {
		if roots.linkless[dir] {
			if outer, inside := nearest(dir); outer != nil {
				root, err = outer.OpenRoot(inside)
			} else {
				root, err = os.OpenRoot(dir)
			}
			return root, strings.TrimPrefix(absolute, strings.TrimSuffix(dir, "/")+"/"), err
		}
		if dir == filepath.Dir(dir) {
			return nil, "", nil
		}
	}
}

// nearest is the innermost root of [Confine] that has a path, and the name of the path in it.
func nearest(path string) (nearest *os.Root, name string) {
	for _, root := range roots.all {
		inside, ok := strings.CutPrefix(path, strings.TrimSuffix(root.Name(), "/")+"/")
		if ok && (nearest == nil || len(root.Name()) > len(nearest.Name())) {
			nearest, name = root, inside
		}
	}
	return nearest, name
}

// real returns an error if a name in a root is a link, or leads through one.
func real(root *os.Root, name, path string) error {
	for at := 0; at < len(name); {
		end := strings.IndexByte(name[at:], filepath.Separator)
		if at += end; end < 0 {
			at = len(name)
		}
		info, err := root.Lstat(name[:at])
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			what := ErrLink
			if at < len(name) {
				what = fmt.Errorf("%s is %w", name[:at], ErrLink)
			}
			return refused(path, what, "copy its target to its place if it is of this run")
		}
		at++
	}
	return nil
}
