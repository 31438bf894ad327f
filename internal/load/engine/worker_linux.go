package engine

import (
	"github.com/tare-mesh/tare/internal/load/epoll"
	"github.com/tare-mesh/tare/internal/load/job"
)

// Supported returns an error on a system without the engine.
func Supported() error { return nil }

func newWorker(j *job.Job, i int) (worker, error) { return epoll.NewWorker(j, i) }
