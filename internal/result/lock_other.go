//go:build !unix

package result

import (
	"errors"
	"fmt"
	"os"
)

func acquire(dir string) (*os.File, error) {
	return nil, &Error{Op: "lock results directory", Path: dir, Err: fmt.Errorf("file locks of this system are not known: %w", errors.ErrUnsupported)}
}
