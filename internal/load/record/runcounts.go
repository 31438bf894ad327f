package record

import "github.com/tare-mesh/tare/internal/load"

// runCounts counts the requests of the whole run.
type runCounts struct{ sent, unanswered, failed, retried int64 }

func (w *runCounts) finish(o *Outcome) {
	if o.Sent < 0 {
		return
	}
	w.sent++
	w.retried += int64(o.Retries)
	switch {
	case o.Status == 0:
		w.unanswered++
	case isError(o.Status):
		w.failed++
	}
}

// isError reports whether a status is an error by its protocol, expected or not.
func isError(status int) bool {
	return status >= 400 && status < load.StatusGRPC || status > load.StatusGRPC && status != load.StatusEcho
}

func (w *runCounts) add(o runCounts) {
	w.sent += o.sent
	w.unanswered += o.unanswered
	w.failed += o.failed
	w.retried += o.retried
}
