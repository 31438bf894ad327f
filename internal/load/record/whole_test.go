package record

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// A colleague can read the log of a load. A log that cannot be written to its end is absent.
func TestWholeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "latency.hdr")
	full := errors.New("the disk is full")
	write := func(err error) error {
		return WriteWhole(path, "interval log", func(w io.Writer) error {
			_, _ = io.WriteString(w, "a line\n")
			return err
		})
	}
	if err := write(full); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if left := must.Get(os.ReadDir(filepath.Dir(path)))(t); len(left) > 0 {
		t.Errorf("%v", left)
	}
	must.OK(t, write(nil))
	if mode := must.Get(os.Stat(path))(t).Mode(); mode&0o400 == 0 || mode&0o044 == 0 {
		t.Errorf("mode %v", mode)
	}
}
