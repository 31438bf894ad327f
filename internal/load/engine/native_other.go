//go:build !linux

package engine

import (
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/portable"
)

// newNativeWorker is worker i of the portable engine: this system has no epoll.
func newNativeWorker(j *job.Job, i int) (worker, error) { return portable.NewWorker(j, i), nil }
