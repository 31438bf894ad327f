package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/show/report"
)

// exportReport writes a format that is a directory of files.
func exportReport(f report.Format, dir string, o reportOptions) error {
	if o.output == "" {
		return hint.Usage(fmt.Errorf("format %s is a directory of files", f.Name), "add -o DIR")
	}
	if err := emptyDir(o.output); err != nil {
		return err
	}
	a, err := analyse(dir, o)
	if err != nil {
		return err
	}
	defer a.Dir.Close()
	return f.Export(o.output, a)
}

// emptyDir makes dir, or makes sure that nothing in it can be overwritten.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create %s: %w", dir, err)
		}
	case err != nil:
		return fmt.Errorf("read %s: %w", dir, err)
	case len(entries) > 0:
		return hint.Usage(fmt.Errorf("%s is not empty", dir), "give a new directory with -o")
	}
	return nil
}
