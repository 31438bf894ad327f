package local

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tare-mesh/tare/internal/base/proc"
)

// workspace is where a trial keeps its files: the provenance directory, which
// remains, and the runtime directory, which holds secrets and sockets and is removed.
type workspace struct {
	provenance string
	runtime    *runtimeDir
	secrets    *secrets
	token      string // of the services' REST interfaces
}

func newWorkspace(provenance string) (*workspace, error) {
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

// makeToken draws the token that changing a service takes. It lies in the
// runtime directory, so that it is never kept, and goes with the deployment.
func (w *workspace) makeToken() error {
	w.token = rand.Text()
	if err := os.WriteFile(w.tokenFile(), []byte(w.token+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	return nil
}

func (w *workspace) tokenFile() string { return w.runtime.file("token") }

// recordCommand appends a command line to provenance/commands.sh; pid 0: it was not run as one.
func (w *workspace) recordCommand(id string, pid int, cmd proc.Command) error {
	f, err := os.OpenFile(filepath.Join(w.provenance, "commands.sh"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("record a command line: %w", err)
	}
	if pid != 0 {
		id = fmt.Sprintf("%s, process %d", id, pid)
	}
	_, err = fmt.Fprintf(f, "# %s\n%s\n\n", id, w.secrets.redact([]byte(cmd.String())))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("record a command line: %w", err)
	}
	return nil
}

// keep writes what was rendered to provenance/ under a name, and returns the
// path for the program to read: that file, or one in the runtime directory where a
// secret is in it. What is kept then has the secrets' names in their places.
func (w *workspace) keep(name string, rendered []byte) (path string, err error) {
	path = filepath.Join(w.provenance, name)
	redacted := w.secrets.redact(rendered)
	if err := os.WriteFile(path, redacted, 0o600); err != nil {
		return "", err
	}
	if bytes.Equal(redacted, rendered) {
		return path, nil
	}
	path = w.runtime.file(name)
	return path, os.WriteFile(path, rendered, 0o600)
}
