package regular

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// roots are the directories whose files are opened within them, by absolute path.
var roots struct {
	sync.RWMutex
	all []*os.Root
}

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

// openFile is [os.OpenFile] for reading, within the root that has the path.
func openFile(path string) (*os.File, error) {
	roots.RLock()
	defer roots.RUnlock()
	var nearest *os.Root
	name := ""
	for _, root := range roots.all {
		inside, ok := strings.CutPrefix(filepath.Clean(path), strings.TrimSuffix(root.Name(), "/")+"/")
		if ok && (nearest == nil || len(root.Name()) > len(nearest.Name())) {
			nearest, name = root, inside
		}
	}
	if nearest != nil {
		return nearest.OpenFile(name, os.O_RDONLY|nonblock, 0)
	}
	return os.OpenFile(path, os.O_RDONLY|nonblock, 0)
}
