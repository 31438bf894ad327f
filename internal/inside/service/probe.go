package service

import (
	"context"
	"net/http"
	"runtime"
	"sync"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/probe"
)

// ProbePath takes a calibration reading on the CPUs of the service and returns
// it as JSON.
const ProbePath = "/probe"

// ProbeHandler takes readings for requests with the token.
func ProbeHandler(token string) http.HandlerFunc {
	return withToken(token, (&prober{take: probe.Local{}.Probe}).serve)
}

// prober takes one reading at a time: concurrent readings would disturb each
// other.
type prober struct {
	busy sync.Mutex
	take func(context.Context) (probe.Reading, error)
}

func (p *prober) serve(w http.ResponseWriter, r *http.Request) {
	if _, ok := readBody(w, r); !ok {
		return
	}
	if !p.busy.TryLock() {
		problem(w, http.StatusConflict, "a reading is being taken", "wait for it", nil)
		return
	}
	defer p.busy.Unlock()
	runtime.GC() // now, not during the reading
	reading, err := p.take(r.Context())
	if err != nil {
		problem(w, http.StatusInternalServerError, err.Error(), "", nil)
		return
	}
	answerJSON(w, http.StatusOK, reading)
}

// withToken requires the token. Without a token it refuses every request.
func withToken(token string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if token == "" {
			problem(w, http.StatusForbidden, "this service cannot be changed", "start it with --token-file", nil)
			return
		}
		if !httpserver.Authorized(w, r, token) {
			problem(w, http.StatusUnauthorized, "changes need the token of the run", "send Authorization: Bearer …", nil)
			return
		}
		next(w, r)
	}
}
