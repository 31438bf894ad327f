package platform

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Provenance is the directory of a trial's rendered configurations, command lines and logs. The empty one keeps nothing.
type Provenance string

// WriteLarge writes one file. With more than max bytes it is compressed, and its name ends in .gz.
func (p Provenance) WriteLarge(name string, content []byte, max int) error {
	if len(content) <= max {
		return p.Write(name, content)
	}
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return p.Write(name+".gz", small.Bytes())
}

// Write writes one file.
func (p Provenance) Write(name string, content []byte) error {
	if !p.Enabled() {
		return nil
	}
	return os.WriteFile(p.Path(name), content, 0o600)
}

// Command adds a command line to commands.sh, below the place where it runs.
func (p Provenance) Command(where, command string) error {
	if err := p.Append("commands.sh", "# %s\n%s\n\n", where, command); err != nil {
		return fmt.Errorf("record a command line: %w", err)
	}
	return nil
}

// Append adds text to a file.
func (p Provenance) Append(name, format string, args ...any) error {
	if !p.Enabled() {
		return nil
	}
	f, err := os.OpenFile(p.Path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, format, args...)
	return errors.Join(err, f.Close())
}

// Enabled reports whether there is a directory.
func (p Provenance) Enabled() bool { return p != "" }

// Path returns the path of a file. The parts of name are separated by slashes.
func (p Provenance) Path(name string) string {
	return filepath.Join(string(p), filepath.FromSlash(name))
}
