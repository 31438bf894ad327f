//go:build !linux

package engine

import (
	"errors"
	"runtime"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/load/job"
)

// Supported returns an error on a system without the engine.
func Supported() error {
	return hint.New("send the load from Linux; on "+runtime.GOOS+" tare plans experiments and reports results",
		"load from %s: %w: the load engine uses Linux's epoll", runtime.GOOS, errors.ErrUnsupported)
}

// newWorker is never called: [Run] checks [Supported] first.
func newWorker(*job.Job, int) (worker, error) { return nil, Supported() }
