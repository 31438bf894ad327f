package local

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// workspace has the files of a trial. The provenance directory is kept. The runtime directory,
// with secrets and sockets, is removed.
type workspace struct {
	provenance platform.Provenance
	runtime    *runtimeDir
	mu         sync.Mutex
	states     *runtimeDir // directories of proxies that any user may enter, nil without
	secrets    *secrets
	token      string // of the services' REST interfaces, in the runtime directory
}

func newWorkspace(provenance platform.Provenance) (*workspace, error) {
	w := &workspace{provenance: provenance, secrets: &secrets{values: map[string]string{}}, token: rand.Text()}
	var err error
	if w.runtime, err = newRuntimeDir(); err != nil {
		return nil, err
	}
	if err := os.WriteFile(w.tokenFile(), []byte(w.token+"\n"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write the token: %w", err), w.runtime.remove())
	}
	return w, nil
}

func (w *workspace) tokenFile() string { return w.runtime.file("token") }

// recordCommand appends a command line to commands.sh, with pid 0 if no process ran it. A program of the user is recorded with
// digests.
func (w *workspace) recordCommand(id string, pid int, cmd proc.Command) error {
	if pid != 0 {
		id = fmt.Sprintf("%s, process %d", id, pid)
	}
	if cmd.Tree {
		for _, f := range digestsOf(cmd, w.provenance.Path(""), w.runtime.file("")) {
			id += fmt.Sprintf("\n# sha256:%s %s", f.digest, f.word)
		}
	}
	return w.provenance.Command(id, string(w.secrets.redact([]byte(cmd.String()))))
}

// keep writes a rendered file to the provenance and returns the path that the program reads. A
// file with secrets is kept with their names only, and the program reads a copy in the runtime
// directory.
func (w *workspace) keep(name string, rendered []byte) (path string, err error) {
	path = w.provenance.Path(name)
	redacted := w.secrets.redact(rendered)
	if err := outfile.WriteFile(path, redacted, 0o600); err != nil {
		return "", err
	}
	if bytes.Equal(redacted, rendered) {
		return path, nil
	}
	path = w.runtime.file(name)
	return path, outfile.WriteFile(path, rendered, 0o600) // a running program may read it
}

// state makes the directory of a process with state, as which user it runs. Only a process that has its path can enter it.
func (w *workspace) state(name string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	if w.states == nil {
		if w.states, err = newSharedDir(); err != nil {
			return "", err
		}
	}
	path := w.states.file(name)
	if err := os.Mkdir(path, 0o700); errors.Is(err, fs.ErrExist) { // of a restarted process
		return path, nil
	} else if err != nil {
		return "", err
	}
	return path, os.Chmod(path, fs.ModeSticky|0o777) //nolint:gosec // written by users that the process changes to
}

// remove removes the directories with secrets, sockets and state. It may be called more than once.
func (w *workspace) remove() error {
	if w.states == nil {
		return w.runtime.remove()
	}
	return errors.Join(w.runtime.remove(), w.states.remove())
}

const (
	runtimePrefix = "tare-run-"
	lockName      = "lock"
	// The path of a socket has at most 104 bytes, including its name.
	maxRuntimeDir = 60
	// settled is the age after which a directory without a lock is a leftover.
	settled = time.Minute
)

// runtimeDir has keys and sockets, which tare must delete. The deployment locks it, so that a
// later run can identify a leftover.
type runtimeDir struct {
	path string
	lock *os.File
}

func newRuntimeDir() (*runtimeDir, error) { return newRuntimeDirIn(runtimeParents()) }

// newSharedDir makes a directory that other users may enter, where they may enter its parents.
func newSharedDir() (*runtimeDir, error) {
	parents := runtimeParents()
	if entered := slices.DeleteFunc(slices.Clone(parents), func(path string) bool { return !enterable(path) }); len(entered) > 0 {
		parents = entered
	}
	dir, err := newRuntimeDirIn(parents)
	if err == nil {
		err = os.Chmod(dir.path, 0o711) //nolint:gosec // entered by users that a process changes to
	}
	return dir, err
}

// enterable reports whether every user may enter a directory.
func enterable(path string) bool {
	for ; ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
	}
}

func newRuntimeDirIn(parents []string) (*runtimeDir, error) {
	var failed []error
	for _, parent := range parents {
		if len(parent)+len(runtimePrefix)+11 > maxRuntimeDir {
			failed = append(failed, fmt.Errorf("the path %s is too long for sockets", parent))
			continue
		}
		dir, err := makeRuntimeDir(parent)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		return dir, nil
	}
	return nil, hint.Wrap(fmt.Errorf("make the runtime directory: %w", errors.Join(failed...)), "set TMPDIR to a short path that is writable")
}

// makeRuntimeDir makes a directory and locks it. Between the two, the sweep of another run can take it for a
// leftover and remove it: then it makes another one.
func makeRuntimeDir(parent string) (*runtimeDir, error) {
	for {
		path, err := os.MkdirTemp(parent, runtimePrefix) // 0700
		if err != nil {
			return nil, err
		}
		lock, err := lockNew(path)
		switch {
		case err == nil:
			return &runtimeDir{path, lock}, nil
		case !errors.Is(err, errLocked) && !errors.Is(err, fs.ErrNotExist):
			return nil, errors.Join(err, os.RemoveAll(path))
		}
	}
}

// errLocked: a running tare has the directory.
var errLocked = errors.New("locked by a living run")

func lockNew(path string) (*os.File, error) {
	f, err := lockDir(path, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	// A sweep that had the lock before has removed the file.
	named, err := os.Lstat(filepath.Join(path, lockName))
	if err == nil {
		var locked fs.FileInfo
		if locked, err = f.Stat(); err == nil && !os.SameFile(named, locked) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (r *runtimeDir) file(name string) string { return filepath.Join(r.path, name) }

// remove may be called more than once.
func (r *runtimeDir) remove() error {
	err := os.RemoveAll(r.path)
	r.lock.Close()
	return hint.Prefix(err, "remove the runtime directory")
}

// sweepRuntimeDirs removes leftovers of this user's killed runs. It needs one descriptor: a run that ends
// without descriptors must leave no keys behind.
func sweepRuntimeDirs() error {
	return hint.Prefix(errors.Join(lists.Map(runtimeParents(), sweepIn)...), "remove what earlier runs left")
}

// runtimeParents are the possible parent directories, preferred first. $TMPDIR is too long on some
// systems.
func runtimeParents() []string {
	parents := []string{os.TempDir()}
	if os.TempDir() != "/tmp" {
		parents = append(parents, "/tmp")
	}
	return parents
}

// sweepIn removes the leftovers in a directory, which other users may write to.
func sweepIn(parent string) error {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil // without access it has no leftovers of tare
	}
	if err != nil {
		return err
	}
	var failed []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), runtimePrefix) {
			continue
		}
		if err := sweepRuntimeDir(parent, e.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// sweepRuntimeDir removes a leftover. It follows no links: a directory of this user that a link
// names is not a leftover.
func sweepRuntimeDir(parent, name string) error {
	path := filepath.Join(parent, name)
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() || !ownedBy(info, os.Getuid()) {
		return nil
	}
	if err := unmovable(parent); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	lock, err := lockDir(path, 0)
	if errors.Is(err, fs.ErrNotExist) { // being made, being removed, or left
		if info, err = os.Lstat(path); err != nil || time.Since(info.ModTime()) < settled {
			return err
		}
		lock, err = lockDir(path, os.O_CREATE)
	}
	if errors.Is(err, errLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, e := range entries {
		file := filepath.Join(path, e.Name())
		switch {
		case e.Name() == lockName: // last: without it a leftover is removed only when it is old
		case e.IsDir():
			err = errors.Join(err, os.RemoveAll(file))
		default:
			err = errors.Join(err, os.Remove(file))
		}
	}
	if err == nil {
		err = errors.Join(os.Remove(lock.Name()), os.Remove(path))
	}
	return err
}

// lockDir locks a directory by its lock file, and flag is os.O_CREATE where it may be missing, else 0.
func lockDir(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockName), flag|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// unmovable refuses a directory in which another user could replace a directory of this user. Elsewhere paths are safe.
func unmovable(parent string) error {
	info, err := os.Stat(parent)
	if err != nil {
		return err
	}
	own := ownedBy(info, 0) || ownedBy(info, os.Getuid())
	if own && (info.Mode()&fs.ModeSticky != 0 || info.Mode().Perm()&0o022 == 0) {
		return nil
	}
	return hint.New("remove "+runtimePrefix+"* there, and set TMPDIR to a directory of your own", "other users can replace files in %s (%v)", parent, info.Mode())
}

func ownedBy(info fs.FileInfo, user int) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == user
}

// maxDigested is the largest file with a digest, bytes.
const maxDigested = 256 << 20

// digested is a file that a command names, with its digest.
type digested struct{ word, digest string }

// digestsOf returns digests of the program of a command and of the regular files among its arguments, such as a script, so that
// two builds with one path differ. Files below the directories apart are tare's own and have none.
func digestsOf(cmd proc.Command, apart ...string) (all []digested) {
	for i, word := range append([]string{cmd.Path}, cmd.Args...) {
		path := word
		if found, err := exec.LookPath(word); i == 0 && !strings.Contains(word, "/") && err == nil {
			path = found
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(cmd.Dir, path)
		}
		if strings.ContainsAny(word, " \t\r\n'\"") || slices.ContainsFunc(apart, func(dir string) bool { return dir != "" && strings.HasPrefix(path, dir+"/") }) {
			continue
		}
		if digest, err := digests.sum(path); err == nil {
			all = append(all, digested{word, digest})
		}
	}
	return all
}

// fileDigests keeps digests of unchanged files.
type fileDigests struct {
	mu    sync.Mutex
	known map[string]knownDigest // by path
}

type knownDigest struct {
	file   os.FileInfo
	time   time.Time
	digest string
}

var digests = fileDigests{known: map[string]knownDigest{}}

// sum returns the SHA-256 of a regular file, its first 12 hexadecimal digits.
func (d *fileDigests) sum(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxDigested {
		return "", fmt.Errorf("%s has no digest: it is not a file of at most %d bytes", path, maxDigested)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if k, ok := d.known[path]; ok && os.SameFile(k.file, info) && k.file.Size() == info.Size() && k.time.Equal(info.ModTime()) {
		return k.digest, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxDigested)); err != nil {
		return "", err
	}
	k := knownDigest{info, info.ModTime(), hex.EncodeToString(sum.Sum(nil))[:12]}
	d.known[path] = k
	return k.digest, nil
}
