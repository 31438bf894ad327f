//go:build !unix

package result

import (
	"errors"
	"fmt"
	"os"

	"github.com/tare-mesh/tare/internal/base/hint"
)

func lock(dir string, _ *os.File) error {
	return &Error{Op: "lock results directory", Path: dir, Hinted: hint.Hinted{Err: fmt.Errorf("no file locks on this system: %w", errors.ErrUnsupported)}}
}

func locked(*os.File) bool { return false }

func links(os.FileInfo) uint64 { return 1 }
