//go:build !unix

package result

import (
	"errors"
	"fmt"
	"os"

	"github.com/tare-mesh/tare/internal/base/hint"
)

func acquire(dir string) (*os.File, error) {
	return nil, &Error{Op: "lock results directory", Path: dir, Hinted: hint.Hinted{Err: fmt.Errorf("no file locks on this system: %w", errors.ErrUnsupported)}}
}
