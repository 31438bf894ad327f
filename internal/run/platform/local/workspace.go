package local

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

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
	token      string // of the services' REST interfaces
}

func newWorkspace(provenance platform.Provenance) (*workspace, error) {
	w := &workspace{provenance: provenance, secrets: newSecrets()}
	var err error
	if w.runtime, err = newRuntimeDir(); err != nil {
		return nil, err
	}
	if err := w.makeToken(); err != nil {
		return nil, errors.Join(err, w.runtime.remove())
	}
	return w, nil
}

// makeToken makes the token of the services' REST interfaces. It is in the runtime directory,
// which is removed.
func (w *workspace) makeToken() error {
	w.token = rand.Text()
	if err := os.WriteFile(w.tokenFile(), []byte(w.token+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	return nil
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
	if err := replace(path, redacted); err != nil {
		return "", err
	}
	if bytes.Equal(redacted, rendered) {
		return path, nil
	}
	path = w.runtime.file(name)
	return path, replace(path, rendered)
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

// replace writes a file that a running program may read.
func replace(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
