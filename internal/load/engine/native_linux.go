package engine

import (
	"github.com/tare-mesh/tare/internal/load/epoll"
	"github.com/tare-mesh/tare/internal/load/job"
)

// newNativeWorker is worker i of the system's own engine.
func newNativeWorker(j *job.Job, i int) (worker, error) {
	w, err := epoll.NewWorker(j, i)
	if err != nil {
		return nil, err
	}
	return w, nil
}
